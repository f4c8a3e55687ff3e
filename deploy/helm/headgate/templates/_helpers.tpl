{{- /* Names are made from the release, as each kind accepts them: a Service's is at most 63 characters, has no dot and begins with a
letter; a StatefulSet adds eleven characters in a label. */ -}}
{{- define "headgate.name" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name -}}
{{- if and .Values.nameOverride (not .Values.fullnameOverride) -}}
{{- $name = printf "%s-%s" .Release.Name .Values.nameOverride -}}
{{- end -}}
{{- $name = $name | lower | replace "." "-" -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- $name = printf "headgate-%s" $name -}}
{{- end -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: headgate
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "headgate.storeSelector" -}}
app.kubernetes.io/name: headgate-store
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "headgate.testSelector" -}}
app.kubernetes.io/name: headgate-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The metadata of an object. Arguments: root; what the name ends in, or the whole name; more labels and annotations; a namespace. */ -}}
{{- define "headgate.metadata" -}}
{{- $root := .root -}}
{{- $own := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $selector := include (.selector | default "headgate.selector") $root | fromYaml -}}
name: {{ .name | default (printf "%s%s" (include "headgate.name" $root) (.ending | default "")) | quote }}
namespace: {{ .namespace | default $root.Release.Namespace | quote }}
labels:
  {{- merge $selector $own (.labels | default dict) ($root.Values.commonLabels | default dict) | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) ($root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The configuration as far as the chart knows it: of a ConfigMap that is there already, what `config` repeats. */ -}}
{{- define "headgate.config" -}}
{{- if and .Values.configText (not .Values.existingConfigMap.name) -}}
{{- $read := fromYaml .Values.configText -}}
{{- if hasKey $read "Error" -}}
{{- fail (printf "configText is not YAML: %s" $read.Error) -}}
{{- end -}}
{{- toYaml $read -}}
{{- else -}}
{{- toYaml .Values.config -}}
{{- end -}}
{{- end }}

{{- define "headgate.mebibytes" -}}
{{- if not (regexMatch "^[1-9][0-9]*(MiB|GiB)$" .) -}}
{{- fail (printf "\n\ncounters.memory is %s, and the memory of the container follows it: write it in MiB or GiB\n" .) -}}
{{- end -}}
{{- mul (regexFind "^[0-9]+" .) (ternary 1024 1 (hasSuffix "GiB" .)) -}}
{{- end }}

{{- /* What pods and Services need of the configuration, with the gateway's defaults. */ -}}
{{- define "headgate.facts" -}}
{{- $config := include "headgate.config" . | fromYaml -}}
{{- $listen := $config.listen | default dict -}}
{{- $admin := $config.admin | default dict -}}
{{- $http := ($config.extAuth | default dict).http | default dict -}}
{{- $grpc := ($config.extAuth | default dict).grpc | default dict -}}
{{- $counters := $config.counters | default dict -}}
port: {{ $listen.port | default 8080 }}
hasTls: {{ not (empty $listen.tls) }}
adminPort: {{ $admin.port | default 9464 }}
adminScheme: {{ ternary "HTTPS" "HTTP" (not (empty $admin.tls)) }}
{{- if $http.enabled }}
extAuthPort: {{ $http.port | default 9465 }}
{{- end }}
{{- if $grpc.enabled }}
extAuthGrpcPort: {{ $grpc.port | default 9466 }}
{{- end }}
isShared: {{ eq ($counters.store | default "memory") "redis" }}
memoryMiB: {{ include "headgate.mebibytes" ($counters.memory | default "32MiB") }}
env:
  - name: HEADGATE_CONFIG
    value: /etc/headgate/{{ ternary .Values.existingConfigMap.key "headgate.yaml" (not (empty .Values.existingConfigMap.name)) }}
  {{- if not $listen.host }}
  - name: HEADGATE_LISTEN_HOST
    value: {{ .Values.host | quote }}
  {{- end }}
  {{- if not $admin.host }}
  - name: HEADGATE_ADMIN_HOST
    value: {{ .Values.host | quote }}
  {{- end }}
  {{- if and $http.enabled (not $http.host) }}
  - name: HEADGATE_EXT_AUTH_HTTP_HOST
    value: {{ .Values.host | quote }}
  {{- end }}
  {{- if and $grpc.enabled (not $grpc.host) }}
  - name: HEADGATE_EXT_AUTH_GRPC_HOST
    value: {{ .Values.host | quote }}
  {{- end }}
{{- end }}

{{- /* Ends the rendering if the configuration lacks what has no good default. */ -}}
{{- define "headgate.check" -}}
{{- if not .Values.existingConfigMap.name -}}
{{- $config := include "headgate.config" . | fromYaml -}}
{{- if not ($config.upstream | default dict).url -}}
{{- fail "\n\nconfig.upstream.url is not set: the address of your API, such as http://finance-backend:3000\n" -}}
{{- end -}}
{{- if not (hasKey ($config.clientAddress | default dict) "trustedProxies") -}}
{{- fail (printf "\n\nconfig.clientAddress.trustedProxies is not set. %s" (include "headgate.networks" .)) -}}
{{- end -}}
{{- $extAuth := $config.extAuth | default dict -}}
{{- if and (or ($extAuth.http | default dict).enabled ($extAuth.grpc | default dict).enabled) (not $extAuth.trustedCallers) (not $extAuth.secretsFile) -}}
{{- fail (printf "\n\nconfig.extAuth needs trustedCallers (or secretsFile): the network of the ingress that asks. %s" (include "headgate.networks" .)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.store.trial.enabled (not .Values.store.passwordSecret.name) -}}
{{- fail "\n\nstore.trial needs store.passwordSecret.name: a Secret with the password, which the store and the gateways read\n" -}}
{{- end -}}
{{- end }}

{{- define "headgate.networks" -}}
It lists the networks from which the
gateway believes X-Forwarded-For: those of the ingress or load balancer in front of it. Without it all clients behind
the ingress share one quota; if it is too wide, clients choose who is charged. For an ingress that runs in pods it is the
pod network:

  kind, kubeadm  kubectl get configmap kubeadm-config -n kube-system -o yaml | grep podSubnet
  EKS            aws eks describe-cluster --name CLUSTER --query cluster.resourcesVpcConfig.vpcId
                 aws ec2 describe-vpcs --vpc-ids VPC --query 'Vpcs[].CidrBlockAssociationSet[].CidrBlock'
                 (pods and load balancers have addresses of the VPC; narrower: the CidrBlock of their subnets)
  GKE            gcloud container clusters describe CLUSTER --location LOCATION --format='value(clusterIpv4Cidr)'
                 (for its load balancers 35.191.0.0/16 and 130.211.0.0/22 as well, and the address of the forwarding rule)
  AKS            az aks show -g GROUP -n CLUSTER --query networkProfile.podCidrs
                 (null with Azure CNI: the prefix of the subnet, az network vnet subnet show --ids SUBNET --query addressPrefix)
  OpenShift      oc get network.config cluster -o jsonpath='{.status.clusterNetwork[*].cidr}'

For example: --set 'config.clientAddress.trustedProxies={10.244.0.0/16}'. If clients reach the gateway without a proxy,
set an empty list: --set-json config.clientAddress.trustedProxies='[]'
{{ end }}

{{- define "headgate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "headgate.name" .) "default" (not (empty .Values.serviceAccount.create))) -}}
{{- end }}

{{- define "headgate.kind" -}}
{{- ternary "StatefulSet" "Deployment" (not (empty .Values.persistence.enabled)) -}}
{{- end }}

{{- define "headgate.families" -}}
{{- with .Values.ipFamilyPolicy }}
ipFamilyPolicy: {{ toYaml . }}
{{- end }}
{{- with .Values.ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "headgate.pullSecrets" -}}
{{- with concat (.Values.imagePullSecrets | default list) ((.Values.global | default dict).imagePullSecrets | default list) }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "headgate.image" -}}
{{- $tag := printf ":%s" (.Values.image.tag | default .Chart.AppVersion) -}}
{{- printf "%s%s" .Values.image.repository (ternary (printf "@%s" .Values.image.digest) $tag (not (empty .Values.image.digest))) -}}
{{- end }}

{{- /* A probe of the admin listener, unless it says what else. Arguments: root, probe, path. */ -}}
{{- define "headgate.probe" -}}
{{- $facts := include "headgate.facts" .root | fromYaml -}}
{{- $probe := .probe -}}
{{- if not (or $probe.httpGet $probe.exec $probe.tcpSocket $probe.grpc) -}}
{{- $get := dict "path" .path "port" "gateway-admin" -}}
{{- if eq $facts.adminScheme "HTTPS" }}{{ $_ := set $get "scheme" "HTTPS" }}{{ end -}}
{{- $probe = merge (dict "httpGet" $get) $probe -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end }}
