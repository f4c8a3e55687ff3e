// Every field that the manifests use, kind by kind, with what it may hold: from the API reference of Kubernetes 1.33, of
// the Prometheus operator (monitoring.coreos.com/v1), of the Gateway API (v1) and of kustomize.
import { either, isMapping, list, mapping, object, oneOf, type Shape, text, whole } from "./shape.ts";

const name = text(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
const portName = text(/^(?=.{1,15}$)[a-z0-9]+(-[a-z0-9]+)*$/);
const port = whole(1, 65_535);
const truth = oneOf(true, false);
const quantity = text(/^\d+(m|Mi|Gi)?$/);
const duration = text(/^\d+(ms|s|m)$/);
const absolutePath = text(/^\/\S*$/);
const seconds = whole(1);
const labels = mapping(
  /^([a-z0-9.-]+\/)?[A-Za-z0-9][-A-Za-z0-9_.]*$/,
  text(/^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/),
);
const selector = object({ matchLabels: labels });
const metadata = object({ name, "labels?": labels });

const httpGet = object({ path: absolutePath, port: either(portName, port) });
const exec = object({ command: list(text()) });
const probe = object({
  "httpGet?": httpGet,
  "exec?": exec,
  "periodSeconds?": seconds,
  "timeoutSeconds?": seconds,
  "failureThreshold?": seconds,
});
const amounts = object({ "cpu?": quantity, memory: quantity });
const securityContext = object({
  runAsNonRoot: truth,
  runAsUser: whole(0),
  runAsGroup: whole(0),
  allowPrivilegeEscalation: truth,
  readOnlyRootFilesystem: truth,
  capabilities: object({ drop: list(text(/^[A-Z_]+$/)) }),
  seccompProfile: object({ type: oneOf("RuntimeDefault") }),
});

const volumeMounts = list(object({ name, mountPath: absolutePath, "readOnly?": truth }));

const container = {
  name,
  image: text(/^[a-z0-9./:-]+:[\w.-]+$/),
  "imagePullPolicy?": oneOf("Always", "IfNotPresent", "Never"),
  "command?": list(text()),
  "args?": list(text()),
  "env?": list(object({ name: text(/^[A-Z_]+$/), value: text() })),
  "ports?": list(object({ name: portName, containerPort: port })),
  "startupProbe?": probe,
  "readinessProbe?": probe,
  "livenessProbe?": probe,
  "lifecycle?": object({ preStop: object({ "exec?": exec, "sleep?": object({ seconds }) }) }),
  resources: object({ requests: amounts, limits: amounts }),
  "terminationMessagePolicy?": oneOf("File", "FallbackToLogsOnError"),
  securityContext,
  "volumeMounts?": volumeMounts,
};

const spreadConstraint = object({
  maxSkew: whole(1),
  topologyKey: oneOf("kubernetes.io/hostname", "topology.kubernetes.io/zone"),
  whenUnsatisfiable: oneOf("ScheduleAnyway", "DoNotSchedule"),
  labelSelector: selector,
  matchLabelKeys: list(oneOf("pod-template-hash")),
});

const pod = {
  "automountServiceAccountToken?": truth,
  "terminationGracePeriodSeconds?": seconds,
  "initContainers?": list(object({ ...container, restartPolicy: oneOf("Always") })),
  "topologySpreadConstraints?": list(spreadConstraint),
  "securityContext?": object({ fsGroup: whole(0), fsGroupChangePolicy: oneOf("OnRootMismatch", "Always") }),
  "volumes?": list(
    object({
      name,
      "configMap?": object({ name }),
      "secret?": object({ secretName: name }),
      "emptyDir?": object({ "medium?": oneOf("Memory") }),
    }),
  ),
};

const podMetadata = object({ labels, "annotations?": mapping(/^[a-z]+\/[a-z]+$/, text()) });

const podTemplate = object({
  metadata: podMetadata,
  spec: object({ ...pod, containers: list(object(container)) }),
});

const deployment = object({
  apiVersion: oneOf("apps/v1"),
  kind: oneOf("Deployment"),
  metadata,
  spec: object({
    replicas: whole(0),
    "strategy?": either(
      object({
        type: oneOf("RollingUpdate"),
        rollingUpdate: object({ maxSurge: whole(0), maxUnavailable: whole(0) }),
      }),
      object({ type: oneOf("Recreate") }),
    ),
    selector,
    template: podTemplate,
  }),
});

const statefulSet = object({
  apiVersion: oneOf("apps/v1"),
  kind: oneOf("StatefulSet"),
  metadata,
  spec: object({
    replicas: whole(0),
    serviceName: name,
    selector,
    template: podTemplate,
    volumeClaimTemplates: list(
      object({
        metadata: object({ name }),
        spec: object({
          accessModes: list(oneOf("ReadWriteOnce", "ReadWriteOncePod")),
          "storageClassName?": name,
          resources: object({ requests: object({ storage: quantity }) }),
        }),
      }),
    ),
  }),
});

/** A patch has only what it changes. */
export const deploymentPatch = object({
  apiVersion: oneOf("apps/v1"),
  kind: oneOf("Deployment"),
  metadata,
  spec: object({
    "replicas?": whole(0),
    template: object({
      "metadata?": podMetadata,
      spec: object({ ...pod, "containers?": list(object({ name, volumeMounts })) }),
    }),
  }),
});

const service = object({
  apiVersion: oneOf("v1"),
  kind: oneOf("Service"),
  metadata,
  spec: object({
    "clusterIP?": oneOf("None"),
    selector: labels,
    ports: list(object({ name: portName, port, targetPort: either(portName, port), protocol: oneOf("TCP") })),
  }),
});

const networkPolicy = object({
  apiVersion: oneOf("networking.k8s.io/v1"),
  kind: oneOf("NetworkPolicy"),
  metadata,
  spec: object({
    podSelector: selector,
    policyTypes: list(oneOf("Ingress")),
    ingress: list(
      object({
        from: list(either(object({ namespaceSelector: selector }), object({ podSelector: selector }))),
        ports: list(object({ port, protocol: oneOf("TCP") })),
      }),
    ),
  }),
});

const metricsEndpoints = list(object({ port: portName, path: absolutePath, interval: duration }));

const patches = list(object({ path: text(), target: object({ kind: oneOf("Deployment"), labelSelector: text() }) }));

/** By apiVersion and kind. */
const kinds: Readonly<Record<string, Shape>> = {
  "apps/v1 Deployment": deployment,
  "apps/v1 StatefulSet": statefulSet,
  "v1 Service": service,
  "v1 ConfigMap": object({
    apiVersion: oneOf("v1"),
    kind: oneOf("ConfigMap"),
    metadata,
    data: mapping(/^[-._a-zA-Z0-9]+$/, text()),
  }),
  "policy/v1 PodDisruptionBudget": object({
    apiVersion: oneOf("policy/v1"),
    kind: oneOf("PodDisruptionBudget"),
    metadata,
    spec: object({
      maxUnavailable: whole(0),
      unhealthyPodEvictionPolicy: oneOf("AlwaysAllow", "IfHealthyBudget"),
      selector,
    }),
  }),
  "networking.k8s.io/v1 NetworkPolicy": networkPolicy,
  "monitoring.coreos.com/v1 PodMonitor": object({
    apiVersion: oneOf("monitoring.coreos.com/v1"),
    kind: oneOf("PodMonitor"),
    metadata,
    spec: object({ selector, podMetricsEndpoints: metricsEndpoints }),
  }),
  "monitoring.coreos.com/v1 ServiceMonitor": object({
    apiVersion: oneOf("monitoring.coreos.com/v1"),
    kind: oneOf("ServiceMonitor"),
    metadata,
    spec: object({ jobLabel: oneOf("app.kubernetes.io/name"), selector, endpoints: metricsEndpoints }),
  }),
  "gateway.networking.k8s.io/v1 Gateway": object({
    apiVersion: oneOf("gateway.networking.k8s.io/v1"),
    kind: oneOf("Gateway"),
    metadata,
    spec: object({
      gatewayClassName: name,
      listeners: list(
        object({
          name,
          protocol: oneOf("HTTP"),
          port,
          allowedRoutes: object({ namespaces: object({ from: oneOf("Same") }) }),
        }),
      ),
    }),
  }),
  "gateway.networking.k8s.io/v1 HTTPRoute": object({
    apiVersion: oneOf("gateway.networking.k8s.io/v1"),
    kind: oneOf("HTTPRoute"),
    metadata,
    spec: object({
      parentRefs: list(object({ name, sectionName: name })),
      rules: list(
        object({
          matches: list(object({ path: object({ type: oneOf("PathPrefix", "Exact"), value: absolutePath }) })),
          backendRefs: list(object({ name, port })),
        }),
      ),
    }),
  }),
  "kustomize.config.k8s.io/v1beta1 Kustomization": object({
    apiVersion: oneOf("kustomize.config.k8s.io/v1beta1"),
    kind: oneOf("Kustomization"),
    resources: list(text()),
    "components?": list(text()),
    "patches?": patches,
    "configMapGenerator?": list(
      object({ name, "behavior?": oneOf("replace"), files: list(text()), options: object({ labels }) }),
    ),
  }),
  "kustomize.config.k8s.io/v1alpha1 Component": object({
    apiVersion: oneOf("kustomize.config.k8s.io/v1alpha1"),
    kind: oneOf("Component"),
    resources: list(text()),
    configMapGenerator: list(object({ name, files: list(text()), options: object({ labels }) })),
    patches,
  }),
};

export function manifestFlaws(manifest: unknown): string[] {
  if (!isMapping(manifest)) return ["not a mapping"];
  const kind = `${manifest["apiVersion"]} ${manifest["kind"]}`;
  const shape = kinds[kind];
  return shape === undefined ? [`${kind}: unknown`] : shape(manifest, `${manifest["kind"]}`);
}
