// The colours of refusals and decisions, which the Grafana dashboard takes from here (deploy/grafana/source/colors.ts).
const throttled = "#fade2a";

export const admitted = "#73bf69";

export const refusals = {
  throttled,
  too_many_refusals: "#c8a840",
  malformed: "#c9b580",
  ambiguous_path: "#af89a2",
  bad_host: "#9b5802",
  bad_field_name: "#996658",
  small_pieces: "#7a3f18",
  no_token: "#f6a1dc",
  invalid_token: "#c53098",
  expired_token: "#b8b5ad",
  insufficient_scope: "#f1e4c2",
  blocked: "#5c4a3a",
  no_route: "#edd9e5",
  method_not_allowed: "#8a4a6a",
  slow_request: "#f1a633",
  body_too_large: "#b2891e",
  target_too_long: "#e3613e",
  head_too_large: "#af2f02",
  unsupported_expect: "#b58170",
  unsupported_encoding: "#fca48c",
  unsupported_method: "#eeca9f",
  upstream_failed: "#e02f44",
  upstream_timeout: "#a11d3a",
  client_share: "#ff802f",
  store_unavailable: "#8f1f5c",
  overloaded: "#ff6595",
  internal: "#b6325d",
};

/** What policies say. */
export const decisions = {
  admitted,
  throttled,
  would_throttle: "#3d7be0",
  exempt: "#7aa7e0",
  observed: "#8c65c8",
  unavailable: refusals.store_unavailable,
};

/** For lines that stand for no name, such as percentiles. */
export const lines = ["#68bbd7", "#6d84d2", "#b989f6"];
