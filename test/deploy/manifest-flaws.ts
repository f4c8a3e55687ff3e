// What an API server would refuse of a manifest, as far as the published schemas of Kubernetes, of the Prometheus operator and of
// the Gateway API say it, and the rules of names and labels, which they do not say. Fields that they do not know are flaws too: an
// API server would drop them.

import { cannotRender, importValidator, type Validator } from "./kubernetes-tools.ts";
import { isMapping } from "./shape.ts";

const core = "kubernetes-models/_schemas/IoK8sApi";
const operator =
  "@kubernetes-models/prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1";
const gatewayApi = "@kubernetes-models/gateway-api/_schemas/IoK8sSigsGatewayApiApisV1";
const schemas: Readonly<Record<string, string>> = {
  "v1 ConfigMap": `${core}CoreV1ConfigMap`,
  "v1 Pod": `${core}CoreV1Pod`,
  "v1 Service": `${core}CoreV1Service`,
  "v1 ServiceAccount": `${core}CoreV1ServiceAccount`,
  "apps/v1 Deployment": `${core}AppsV1Deployment`,
  "apps/v1 StatefulSet": `${core}AppsV1StatefulSet`,
  "autoscaling/v2 HorizontalPodAutoscaler": `${core}AutoscalingV2HorizontalPodAutoscaler`,
  "networking.k8s.io/v1 Ingress": `${core}NetworkingV1Ingress`,
  "networking.k8s.io/v1 NetworkPolicy": `${core}NetworkingV1NetworkPolicy`,
  "policy/v1 PodDisruptionBudget": `${core}PolicyV1PodDisruptionBudget`,
  "monitoring.coreos.com/v1 PodMonitor": `${operator}PodMonitor`,
  "monitoring.coreos.com/v1 PrometheusRule": `${operator}PrometheusRule`,
  "monitoring.coreos.com/v1 ServiceMonitor": `${operator}ServiceMonitor`,
  "gateway.networking.k8s.io/v1 Gateway": `${gatewayApi}Gateway`,
  "gateway.networking.k8s.io/v1 HTTPRoute": `${gatewayApi}HTTPRoute`,
};

const validators = new Map<string, Validator>();
if (!cannotRender) {
  for (const [kind, schema] of Object.entries(schemas)) validators.set(kind, await importValidator(schema));
}

/** Each as `place: what`; empty if nothing is wrong. */
export function manifestFlaws(manifest: unknown): string[] {
  if (!isMapping(manifest)) return ["not a mapping"];
  const kind = `${manifest["apiVersion"]} ${manifest["kind"]}`;
  const validate = validators.get(kind);
  if (validate === undefined) return [`${kind}: no schema`];
  const unread = new Set<string>();
  const isValid = validate(watched(manifest, `${manifest["kind"]}`, unread));
  const errors = isValid ? [] : (validate.errors ?? []);
  return [
    ...errors.map(
      ({ instancePath, keyword, params }) => `${kind}${instancePath}: ${keyword} ${JSON.stringify(params)}`,
    ),
    ...[...unread].map((place) => `${place}: unknown`),
    ...nameFlaws(manifest, kind),
  ];
}

/** A copy that takes a key out of `unread` when somebody reads it: a validator reads each that its schema knows. */
function watched(value: unknown, place: string, unread: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((item, i) => watched(item, `${place}[${i}]`, unread));
  if (!isMapping(value)) return value;
  const copy = {};
  for (const [key, inner] of Object.entries(value)) {
    const here = `${place}.${key}`;
    const child = watched(inner, here, unread);
    unread.add(here);
    Object.defineProperty(copy, key, {
      enumerable: true,
      get: () => {
        unread.delete(here);
        return child;
      },
    });
  }
  return copy;
}

/** RFC 1035, as a Service needs it; the other kinds accept more. */
const objectName = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;
const labelKey = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
/** Others have a domain. */
const resourceName = /^(cpu|memory|storage|ephemeral-storage|hugepages-\w+|.+\/.+)$/;
/** A name of ports. */
const portName = /^(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*$/;

function nameFlaws(value: unknown, place: string): string[] {
  if (Array.isArray(value)) return value.flatMap((item, i) => nameFlaws(item, `${place}[${i}]`));
  if (!isMapping(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const here = `${place}.${key}`;
    if (key === "metadata" && isMapping(inner) && "name" in inner && !objectName.test(`${inner["name"]}`)) {
      return [`${here}.name: no name of an object: ${inner["name"]}`];
    }
    if (key === "ports" && Array.isArray(inner)) {
      const names = inner.flatMap((port) => (isMapping(port) && "name" in port ? [`${port["name"]}`] : []));
      return names.filter((name) => !portName.test(name)).map((name) => `${here}: no name of a port: ${name}`);
    }
    if (["labels", "matchLabels", "nodeSelector"].includes(key) && isMapping(inner)) {
      const wrong = Object.entries(inner).filter(
        ([label, text]) => !labelKey.test(label) || !labelValue.test(`${text}`),
      );
      return wrong.map(([label]) => `${here}: no label: ${label}`);
    }
    if (["requests", "limits"].includes(key) && isMapping(inner)) {
      const wrong = Object.keys(inner).filter((resource) => !resourceName.test(resource));
      return wrong.map((resource) => `${here}: no resource: ${resource}`);
    }
    return nameFlaws(inner, here);
  });
}
