// The standard "restricted" of Kubernetes' Pod Security Standards, for a pod's specification.
import { isMapping, type Mapping } from "./shape.ts";

const volumes = [
  "configMap",
  "csi",
  "downwardAPI",
  "emptyDir",
  "ephemeral",
  "persistentVolumeClaim",
  "projected",
  "secret",
];

/** What such a namespace would refuse of the pod; empty if nothing. */
export function podSecurityFlaws(pod: Mapping): string[] {
  const ofPod = mapping(pod["securityContext"]);
  const containers = [pod["initContainers"], pod["containers"]].flat().filter(isMapping);
  const flaws = ["hostNetwork", "hostPID", "hostIPC"].filter((key) => pod[key] === true);
  for (const volume of [pod["volumes"]].flat().filter(isMapping)) {
    const kinds = Object.keys(volume).filter((key) => key !== "name");
    if (!kinds.every((kind) => volumes.includes(kind))) flaws.push(`volume ${volume["name"]}: ${kinds}`);
  }
  for (const container of containers) {
    const own = mapping(container["securityContext"]);
    const effective = { ...ofPod, ...own };
    const capabilities = mapping(own["capabilities"]);
    const added = [capabilities["add"] ?? []].flat();
    const rules: Readonly<Record<string, boolean>> = {
      privileged: own["privileged"] !== true,
      allowPrivilegeEscalation: own["allowPrivilegeEscalation"] === false,
      runAsNonRoot: effective["runAsNonRoot"] === true,
      runAsUser: effective["runAsUser"] !== 0,
      seccompProfile: ["RuntimeDefault", "Localhost"].includes(`${mapping(effective["seccompProfile"])["type"]}`),
      drop: [capabilities["drop"] ?? []].flat().includes("ALL"),
      add: added.every((one) => one === "NET_BIND_SERVICE"),
      hostPort: [container["ports"] ?? []].flat().every((port) => !isMapping(port) || !port["hostPort"]),
    };
    const broken = Object.keys(rules).filter((rule) => !rules[rule]);
    flaws.push(...broken.map((rule) => `container ${container["name"]}: ${rule}`));
  }
  return flaws;
}

const mapping = (value: unknown): Mapping => (isMapping(value) ? value : {});
