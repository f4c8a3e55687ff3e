// The broken configurations of policies, and what `headgate check` answers to each.
import { enumerate } from "../../src/core/enumerate.ts";
import { calendarPeriods } from "../../src/core/policy.ts";

export const policyMessages: readonly (readonly [file: string, message: string])[] = [
  ["enforcement-boolean.yaml", "enforcement-boolean.yaml:1:14: enforcement: found false, expected on or shadow"],
  ["enforcement-word.yaml", 'enforcement-word.yaml:1:14: enforcement: found "off", expected on or shadow'],
  ["limits-section.yaml", 'limits-section.yaml:1:1: limits: unknown key; did you mean "policies"?'],
  ["policies-33.yaml", "policies-33.yaml:2:3: policies: found a list of 33, expected a list of 1 to 32 policies"],
  [
    "policies-a-mapping.yaml",
    "policies-a-mapping.yaml:2:3: policies: found a mapping, expected a list of 1 to 32 policies",
  ],
  [
    "policies-a-word.yaml",
    'policies-a-word.yaml:1:12: policies.0: found "per-ip", expected a mapping of name, limit, window, per, timezone, concurrency, match, who, key, cost, charge, mode, exempt and overrides',
  ],
  [
    "policies-empty-item.yaml",
    "policies-empty-item.yaml:2:4: policies.0.name: found nothing, expected a name of at most 32 lower-case letters, digits and hyphens that begins with a letter" +
      "\n" +
      "policies-empty-item.yaml:2:4: policies.0: found nothing, expected one of limit with window, limit with per, and concurrency in it",
  ],
  ["policies-none.yaml", "policies-none.yaml:1:11: policies: found an empty list, expected a list of 1 to 32 policies"],
  [
    "policies-same-name.yaml",
    'policies-same-name.yaml:4:13: policies.2.name: found "a", expected no second "a" (policies.0); give one of the two another name',
  ],
  [
    "policy-charge-a-list.yaml",
    "policy-charge-a-list.yaml:5:13: policies.0.charge: found [401, 403], expected a mapping of statuses",
  ],
  [
    "policy-concurrency-max-clients.yaml",
    "policy-concurrency-max-clients.yaml:4:5: policies.0.maxClients: unknown key; counters.memory bounds the memory of all policies together",
  ],
  [
    "policy-charge-concurrency.yaml",
    "policy-charge-concurrency.yaml:4:25: policies.0.charge.statuses: found [401], expected none, since concurrency is set; remove charge, or use limit and window instead of concurrency",
  ],
  [
    "policy-charge-empty.yaml",
    "policy-charge-empty.yaml:5:25: policies.0.charge.statuses: found an empty list, expected the statuses that are charged, such as [401, 403]",
  ],
  [
    "policy-charge-limit.yaml",
    "policy-charge-limit.yaml:3:12: policies.0.limit: found 10001, expected at most 10000, since charge is set; lower it, or remove charge",
  ],
  [
    "policy-charge-override.yaml",
    "policy-charge-override.yaml:6:45: policies.0.overrides.0.limit: found 10001, expected at most 10000, since charge is set; lower it, or remove charge",
  ],
  [
    "policy-charge-status-600.yaml",
    "policy-charge-status-600.yaml:5:31: policies.0.charge.statuses.1: found 600, expected a whole number from 100 to 599",
  ],
  [
    "policy-charge-status-class.yaml",
    'policy-charge-status-class.yaml:5:26: policies.0.charge.statuses.0: found "4xx", expected a whole number from 100 to 599',
  ],
  [
    "policy-charge-status-twice.yaml",
    "policy-charge-status-twice.yaml:5:31: policies.0.charge.statuses.1: found 401, expected no second 401; remove it",
  ],
  [
    "policy-charge-without-statuses.yaml",
    "policy-charge-without-statuses.yaml:5:13: policies.0.charge.statuses: found nothing, expected the statuses that are charged, such as [401, 403]",
  ],
  [
    "policy-clients.yaml",
    "policy-clients.yaml:5:5: policies.0.maxClients: unknown key; counters.memory bounds the memory of all policies together",
  ],
  [
    "policy-concurrency-too-large.yaml",
    "policy-concurrency-too-large.yaml:3:18: policies.0.concurrency: found 65536, expected a whole number from 1 to 65535",
  ],
  [
    "policy-concurrency-zero.yaml",
    "policy-concurrency-zero.yaml:3:18: policies.0.concurrency: found 0, expected a whole number from 1 to 65535",
  ],
  [
    "policy-cost-over-concurrency.yaml",
    "policy-cost-over-concurrency.yaml:4:11: policies.0.cost: found 11, expected at most concurrency (10); lower it, or raise concurrency",
  ],
  [
    "policy-cost-over-limit.yaml",
    "policy-cost-over-limit.yaml:5:11: policies.0.cost: found 11, expected at most limit (10); lower it, or raise limit",
  ],
  [
    "policy-cost-over-override.yaml",
    "policy-cost-over-override.yaml:6:45: policies.0.overrides.0.limit: found 10, expected at least cost (11); raise it, or lower cost",
  ],
  [
    "policy-cost-zero.yaml",
    "policy-cost-zero.yaml:5:11: policies.0.cost: found 0, expected a whole number from 1 to 1000000",
  ],
  [
    "policy-exempt-name.yaml",
    'policy-exempt-name.yaml:5:14: policies.0.exempt.0: found "office.internal", expected an IP address or a network such as "10.0.0.0/8"',
  ],
  [
    "policy-exempt-narrow.yaml",
    'policy-exempt-narrow.yaml:5:14: policies.0.exempt.0: found "2001:db8::1", expected at most /64, because clientAddress.ipv6Prefix makes it one client; name the whole network, or raise clientAddress.ipv6Prefix',
  ],
  [
    "policy-key-a-word.yaml",
    'policy-key-a-word.yaml:5:10: policies.0.key: found "client", expected a list of at most 8 parts, such as [client] or [token, route]; did you mean [client]?',
  ],
  ["policy-key-address.yaml", 'policy-key-address.yaml:5:11: policies.0.key.0: found "ip", expected client'],
  [
    "policy-key-authorization.yaml",
    'policy-key-authorization.yaml:5:11: policies.0.key.0: found "header:Authorization", expected token, which reads this header',
  ],
  [
    "policy-key-claim.yaml",
    'policy-key-claim.yaml:5:11: policies.0.key.0: found "claim:tier", expected another part; claims need auth.mode jwt, which is not supported yet',
  ],
  [
    "policy-key-forwarded-for.yaml",
    'policy-key-forwarded-for.yaml:5:11: policies.0.key.0: found "header:X-Forwarded-For", expected client, which reads this header',
  ],
  [
    "policy-key-header-underscore.yaml",
    'policy-key-header-underscore.yaml:5:11: policies.0.key.0: found "header:x_forwarded_for", expected another header; requests with one that can be read as x-forwarded-for are refused',
  ],
  [
    "policy-key-header-unnamed.yaml",
    'policy-key-header-unnamed.yaml:5:11: policies.0.key.0: found "header:", expected client, token, subject, method, route or header:NAME',
  ],
  [
    "policy-key-kong.yaml",
    'policy-key-kong.yaml:5:11: policies.0.key.0: found "consumer", expected token, subject or header:NAME',
  ],
  [
    "policy-key-nginx.yaml",
    'policy-key-nginx.yaml:5:11: policies.0.key.0: found "$binary_remote_addr", expected client',
  ],
  [
    "policy-key-path.yaml",
    'policy-key-path.yaml:5:19: policies.0.key.1: found "path", expected route, or match.paths for one path',
  ],
  [
    "policy-key-subject.yaml",
    'policy-key-subject.yaml:5:11: policies.0.key.0: found "subject", expected another part, since auth.mode is presence; use token, or set auth.mode to tokens',
  ],
  [
    "policy-key-twice.yaml",
    'policy-key-twice.yaml:5:19: policies.0.key.1: found "client", expected no second "client"; remove it',
  ],
  [
    "policy-limit-and-concurrency.yaml",
    "policy-limit-and-concurrency.yaml:3:12: policies.0.limit: found 100, expected none, since concurrency is set; remove one of the two",
  ],
  [
    "policy-limit-per-second.yaml",
    'policy-limit-per-second.yaml:3:12: policies.0.limit: found "10r/s", expected a whole number (the time is in window or per)',
  ],
  [
    "policy-limit-text.yaml",
    'policy-limit-text.yaml:3:12: policies.0.limit: found "unlimited", expected a whole number from 1 to 1000000000',
  ],
  [
    "policy-limit-too-large.yaml",
    "policy-limit-too-large.yaml:3:12: policies.0.limit: found 1000000001, expected a whole number from 1 to 1000000000",
  ],
  [
    "policy-limit-without-window.yaml",
    'policy-limit-without-window.yaml:3:12: policies.0.window: found nothing, expected the length of the window, such as "60s"; add it, or set per',
  ],
  [
    "policy-limit.yaml",
    "policy-limit.yaml:3:12: policies.0.limit: found 0, expected a whole number from 1 to 1000000000",
  ],
  [
    "policy-match-a-list.yaml",
    'policy-match-a-list.yaml:5:12: policies.0.match: found ["/v1/"], expected a mapping of paths and methods',
  ],
  [
    "policy-match-base-path.yaml",
    'policy-match-base-path.yaml:6:22: policies.0.match.paths.0: found "/finance/v1/", expected a path under one of the routes (/v1/, /v2/), without basePath',
  ],
  [
    "policy-match-braces.yaml",
    'policy-match-braces.yaml:5:22: policies.0.match.paths.0: found "/v1/{id}/x", expected "*" for a segment of any name',
  ],
  [
    "policy-match-dot-segment.yaml",
    String.raw`policy-match-dot-segment.yaml:5:22: policies.0.match.paths.0: found "/v1/../v2/", expected a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "policy-match-empty-segment.yaml",
    String.raw`policy-match-empty-segment.yaml:5:22: policies.0.match.paths.0: found "/v1//x", expected a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "policy-match-letter.yaml",
    'policy-match-letter.yaml:5:22: policies.0.match.paths.0: found "/v1/café", expected "*" for a segment with blanks or letters outside of ASCII',
  ],
  [
    "policy-who-others-subject.yaml",
    'policy-who-others-subject.yaml:3:57: policies.0.key.0: found "subject", expected another part, since who is others, and these have no subject; use client',
  ],
  [
    "policy-who-verified.yaml",
    'policy-who-verified.yaml:3:43: policies.1.who: found "verified", expected others or none, since no token of these requests is verified; remove it, or set auth.mode to tokens',
  ],
  [
    "policy-who-word.yaml",
    'policy-who-word.yaml:2:43: policies.0.who: found "partners-ish", expected verified or others',
  ],
  [
    "policy-match-encoded.yaml",
    String.raw`policy-match-encoded.yaml:5:22: policies.0.match.paths.0: found "/v1/%61", expected a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "policy-match-glob.yaml",
    'policy-match-glob.yaml:5:22: policies.0.match.paths.0: found "/v1/**", expected "*" as a whole segment only; a path that ends in "/" is a prefix',
  ],
  [
    "policy-match-method-all.yaml",
    'policy-match-method-all.yaml:5:24: policies.0.match.methods.0: found "*", expected the name of a method; leave methods out for all of them',
  ],
  [
    "policy-match-method-case.yaml",
    'policy-match-method-case.yaml:5:24: policies.0.match.methods.0: found "get", expected the name in upper case: GET',
  ],
  [
    "policy-match-method-list.yaml",
    'policy-match-method-list.yaml:5:24: policies.0.match.methods.0: found "GET,POST", expected the name of a method in upper case, such as GET',
  ],
  [
    "policy-match-method-twice.yaml",
    'policy-match-method-twice.yaml:5:29: policies.0.match.methods.1: found "GET", expected no second "GET"; remove it',
  ],
  [
    "policy-match-no-route.yaml",
    'policy-match-no-route.yaml:5:30: policies.0.match.paths.1: found "/v3/", expected a path under one of the routes (/v1/, /v2/); change it, or add its route to routes',
  ],
  [
    "policy-match-parameter-name.yaml",
    'policy-match-parameter-name.yaml:5:22: policies.0.match.paths.0: found "/v1/:id", expected "*" for a segment of any name',
  ],
  [
    "policy-match-parameters.yaml",
    String.raw`policy-match-parameters.yaml:5:22: policies.0.match.paths.0: found "/v1/x;a", expected a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "policy-match-path-twice.yaml",
    'policy-match-path-twice.yaml:5:29: policies.0.match.paths.1: found "/V1/X", expected no second "/v1/x"; remove it',
  ],
  [
    "policy-match-query.yaml",
    String.raw`policy-match-query.yaml:5:22: policies.0.match.paths.0: found "/v1/x?limit=5", expected a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "policy-match-regex.yaml",
    'policy-match-regex.yaml:5:22: policies.0.match.paths.0: found "~ ^/v1/", expected a path, because there are no regular expressions; one that ends in "/" is a prefix',
  ],
  [
    "policy-match-relative.yaml",
    String.raw`policy-match-relative.yaml:5:22: policies.0.match.paths.0: found "v1/", expected a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "policy-match-star-part.yaml",
    'policy-match-star-part.yaml:5:22: policies.0.match.paths.0: found "/v1/user-*", expected "*" as a whole segment only; a path that ends in "/" is a prefix',
  ],
  [
    "policy-mode-word.yaml",
    'policy-mode-word.yaml:5:11: policies.0.mode: found "dry-run-ish", expected enforce or shadow',
  ],
  [
    "policy-name.yaml",
    'policy-name.yaml:2:11: policies.0.name: found "Per IP", expected a name of at most 32 lower-case letters, digits and hyphens that begins with a letter',
  ],
  [
    "policy-override-concurrency.yaml",
    "policy-override-concurrency.yaml:4:45: policies.0.overrides.0.limit: found 65536, expected at most 65535, since concurrency is set",
  ],
  [
    "policy-override-exempt.yaml",
    'policy-override-exempt.yaml:6:27: policies.0.overrides.0.client: found "10.1.0.0/16", expected a network outside of 10.0.0.0/8, which is exempt; remove it here or in exempt',
  ],
  [
    "policy-override-narrow.yaml",
    'policy-override-narrow.yaml:5:27: policies.0.overrides.0.client: found "2001:db8::/96", expected at most /64, because clientAddress.ipv6Prefix makes it one client; name the whole network, or raise clientAddress.ipv6Prefix',
  ],
  [
    "policy-override-network.yaml",
    'policy-override-network.yaml:5:27: policies.0.overrides.0.client: found "192.0.2.0/33", expected an IP address or a network such as "10.0.0.0/8"',
  ],
  [
    "policy-override-no-header.yaml",
    "policy-override-no-header.yaml:5:27: policies.0.overrides.0.header: found text of 4 characters, expected none, since key is [client], without header; add header:NAME to key, or remove this override",
  ],
  [
    "policy-override-not-in-key.yaml",
    "policy-override-not-in-key.yaml:5:26: policies.0.overrides.0.token: found text of 4 characters, expected none, since key is [client], without token; add token to key, or remove this override",
  ],
  [
    "policy-override-token-itself.yaml",
    "policy-override-token-itself.yaml:6:26: policies.0.overrides.0.token: found text of 48 characters, expected the name of a token in auth.tokensFile, or its SHA-256 digest (64 hex digits)",
  ],
  [
    "policy-override-token-list.yaml",
    "policy-override-token-list.yaml:6:26: policies.0.overrides.0.token: found [text of 15 characters], expected the name of a token in auth.tokensFile, or its SHA-256 digest (64 hex digits)",
  ],
  [
    "policy-override-token-name.yaml",
    "policy-override-token-name.yaml:6:26: policies.0.overrides.0.token: found text of 4 characters, expected a SHA-256 digest (64 hex digits), since auth.mode is presence and tokens have no names; write the token's digest, or set auth.mode to tokens",
  ],
  [
    "policy-override-twice.yaml",
    'policy-override-twice.yaml:7:19: policies.0.overrides.1.client: found "192.0.2.7/32", expected no second one for the same client; remove one of the two',
  ],
  [
    "policy-override-two-headers.yaml",
    "policy-override-two-headers.yaml:6:27: policies.0.overrides.0.header: found text of 4 characters, expected none, since key is [header:x-plan, header:x-team], with more than one header; leave one of them in key, or remove this override",
  ],
  [
    "policy-override-two-parts.yaml",
    "policy-override-two-parts.yaml:6:45: policies.0.overrides.0.token: found text of 4 characters, expected none, since client is set; write an override for each",
  ],
  [
    "policy-override-unlimited.yaml",
    "policy-override-unlimited.yaml:5:45: policies.0.overrides.0.limit: found -1, expected a whole number from 1 to 1000000000 (for no limit, name the clients in exempt)",
  ],
  [
    "policy-override-without-limit.yaml",
    "policy-override-without-limit.yaml:5:17: policies.0.overrides.0.limit: found nothing, expected a whole number from 1 to 1000000000",
  ],
  [
    "policy-override-window.yaml",
    "policy-override-window.yaml:5:50: policies.0.overrides.0.window: unknown key; an override changes the limit alone; for another time, add a policy, and exempt these clients from this one",
  ],
  [
    "policy-override-without-part.yaml",
    "policy-override-without-part.yaml:5:17: policies.0.overrides.0: found a mapping, expected one of client, token, subject and header in it",
  ],
  [
    "policy-overrides-a-mapping.yaml",
    "policy-overrides-a-mapping.yaml:5:16: policies.0.overrides: found a mapping, expected a list of at most 1024 overrides, such as [{ client: 203.0.113.7, limit: 1000 }]",
  ],
  [
    "policy-per-fortnight-ish.yaml",
    `policy-per-fortnight-ish.yaml:4:10: policies.0.per: found "fortnight-ish", expected ${enumerate(calendarPeriods)} (for any other length, use window)`,
  ],
  [
    "policy-per-without-limit.yaml",
    "policy-per-without-limit.yaml:3:10: policies.0.limit: found nothing, expected a whole number, since per is set",
  ],
  ["policy-section.yaml", 'policy-section.yaml:1:1: policy: unknown key; did you mean "policies"?'],
  [
    "policy-timezone-abbreviation.yaml",
    'policy-timezone-abbreviation.yaml:5:15: policies.0.timezone: found "CEST", expected a time zone of the IANA database, such as "Europe/Berlin" or "UTC"',
  ],
  [
    "policy-timezone-offset.yaml",
    'policy-timezone-offset.yaml:5:15: policies.0.timezone: found "+02:00", expected a time zone of the IANA database, such as "Europe/Berlin" or "UTC"',
  ],
  [
    "policy-timezone-unknown.yaml",
    'policy-timezone-unknown.yaml:5:15: policies.0.timezone: found "Europe/Berln", expected a time zone of the IANA database, such as "Europe/Berlin" or "UTC"',
  ],
  [
    "policy-timezone-without-per.yaml",
    'policy-timezone-without-per.yaml:5:15: policies.0.timezone: found "Europe/Berlin", expected none, since per is not set; remove it, or set per',
  ],
  [
    "policy-window-32d.yaml",
    'policy-window-32d.yaml:4:13: policies.0.window: found "32d", expected a duration from 100ms to 31d, such as "60s"',
  ],
  [
    "policy-window-and-concurrency.yaml",
    'policy-window-and-concurrency.yaml:3:13: policies.0.window: found "60s", expected none, since concurrency is set; remove one of the two',
  ],
  [
    "policy-window-and-per.yaml",
    'policy-window-and-per.yaml:5:10: policies.0.per: found "minute", expected none, since window is set; remove one of the two',
  ],
  [
    "policy-window-number.yaml",
    'policy-window-number.yaml:4:13: policies.0.window: found 60, expected a duration with its unit, such as "60s"',
  ],
  [
    "policy-window-without-limit.yaml",
    "policy-window-without-limit.yaml:3:13: policies.0.limit: found nothing, expected a whole number, since window is set",
  ],
  [
    "policy-window.yaml",
    'policy-window.yaml:4:13: policies.0.window: found "50ms", expected a duration from 100ms to 31d, such as "60s"',
  ],
  [
    "policy-without-limit.yaml",
    "policy-without-limit.yaml:2:5: policies.0: found a mapping, expected one of limit with window, limit with per, and concurrency in it",
  ],
  [
    "policy-without-name.yaml",
    "policy-without-name.yaml:2:5: policies.0.name: found nothing, expected a name of at most 32 lower-case letters, digits and hyphens that begins with a letter",
  ],
  [
    "policy-word-burst.yaml",
    'policy-word-burst.yaml:5:5: policies.0.burst: unknown key; did you mean "policies.0.limit" or "policies.0.window"?',
  ],
  [
    "policy-word-dry-run.yaml",
    'policy-word-dry-run.yaml:5:5: policies.0.dry_run: unknown key; did you mean "policies.0.mode"?',
  ],
  [
    "policy-word-paths.yaml",
    'policy-word-paths.yaml:5:5: policies.0.paths: unknown key; did you mean "policies.0.match.paths"?',
  ],
  [
    "policy-word-rate.yaml",
    'policy-word-rate.yaml:3:5: policies.0.rate: unknown key; did you mean "policies.0.limit" or "policies.0.window"?',
  ],
  [
    "policy-word-unit.yaml",
    'policy-word-unit.yaml:3:5: policies.0.requests_per_unit: unknown key; did you mean "policies.0.limit"?' +
      "\n" +
      'policy-word-unit.yaml:4:5: policies.0.unit: unknown key; did you mean "policies.0.window" or "policies.0.per"?',
  ],
  [
    "policy-word-whitelist.yaml",
    'policy-word-whitelist.yaml:5:5: policies.0.whitelist: unknown key; did you mean "policies.0.exempt"?',
  ],
  [
    "unknown-policy-key.yaml",
    'unknown-policy-key.yaml:4:5: policies.0.windows: unknown key; did you mean "policies.0.window"?',
  ],
];
