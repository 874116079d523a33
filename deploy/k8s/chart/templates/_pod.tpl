{{/* The pod template of a role. Call with (dict "root" . "role" "gateway" "container" "…" "pod" "…"). */}}
{{- define "barnabas.podTemplate" -}}
{{- $root := .root -}}
{{- $role := .role -}}
{{- $values := index $root.Values $role -}}
{{- $labels := list $root $role -}}
{{- $name := printf "%s-%s" (include "barnabas.fullname" $root) $role -}}
metadata:
  labels:
    {{- include "barnabas.labels" $labels | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration restarts the pod.
    checksum/config: {{ include "barnabas.properties" $labels | sha256sum | quote }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "barnabas.serviceAccountName" $root | quote }}
  automountServiceAccountToken: false
  # Kubernetes' service variables begin with the Service's name, and so could be taken for Barnabas' configuration.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  securityContext:
    {{- include "barnabas.podSecurityContext" $root | nindent 4 }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- else }}
  affinity:
    {{- if and (eq $role "gateway") (eq $root.Values.cluster.addressPolicy "colocated") }}
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "barnabas.selectorLabels" (list $root "logstore") | nindent 16 }}
            # The logstore of the same number.
            matchLabelKeys: [apps.kubernetes.io/pod-index]
    {{- else }}
    podAntiAffinity:
      {{- include "barnabas.antiAffinity" (list $root $role (default "soft" $values.antiAffinity)) | nindent 6 }}
    {{- end }}
  {{- end }}
  topologySpreadConstraints:
    {{- with $values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "barnabas.selectorLabels" $labels | nindent 10 }}
    {{- end }}
  containers:
    - name: {{ $role }}
      image: {{ include "barnabas.image" $labels | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: ["--config", /etc/barnabas/barnabas.properties]
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- include (printf "barnabas.environment.%s" $role) $root | nindent 8 }}
        {{- if $root.Values.cluster.laneDirectory }}
        - name: BARNABAS_LANE_DIRECTORY
          value: /run/barnabas-lanes
        {{- end }}
        {{- with $root.Values.etcd.external.passwordSecret }}
        {{- if and .name (not $root.Values.etcd.bundled.enabled) }}
        - name: BARNABAS_ETCD_PASSWORD
          valueFrom: {secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}}
        {{- end }}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- .container | nindent 6 }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        {{- include "barnabas.containerSecurityContext" $root | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/barnabas
          readOnly: true
        {{- if include "barnabas.etcdTlsSecret" $labels }}
        - name: etcd-tls
          mountPath: /etc/etcd-tls
          readOnly: true
        {{- end }}
        {{- if include "barnabas.internalTlsSecret" $labels }}
        - name: internal-tls
          mountPath: /etc/barnabas-tls
          readOnly: true
        {{- end }}
        {{- with include "barnabas.metricsMounts" $root | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- if eq $role "gateway" }}
        {{- with include "barnabas.listenerMounts" $root | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- if and (eq $role "controller") (ne (include "barnabas.operatorsAuthentication" $root) "none") }}
        - name: operations-tls
          mountPath: /etc/barnabas-operations
          readOnly: true
        {{- end }}
        {{- if and (eq $role "controller") (include "barnabas.hasOperatorSecret" $root) }}
        - name: operator-tls
          mountPath: /etc/barnabas-operator
          readOnly: true
        {{- end }}
        {{- if $root.Values.cluster.laneDirectory }}
        - name: lanes
          mountPath: /run/barnabas-lanes
        {{- end }}
        {{- if eq $role "logstore" }}
        - name: data
          mountPath: /data
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ $name | quote }}
    {{- with include "barnabas.etcdTlsSecret" $labels }}
    - name: etcd-tls
      secret:
        secretName: {{ . | quote }}
        defaultMode: 0440
    {{- end }}
    {{- with include "barnabas.internalTlsSecret" $labels }}
    - name: internal-tls
      secret:
        secretName: {{ . | quote }}
        defaultMode: 0440
    {{- end }}
    {{- with include "barnabas.metricsVolumes" $root | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- if eq $role "gateway" }}
    {{- with include "barnabas.listenerVolumes" $root | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- if and (eq $role "controller") (ne (include "barnabas.operatorsAuthentication" $root) "none") }}
    - name: operations-tls
      secret:
        secretName: {{ include "barnabas.operationsSecret" $root | quote }}
        defaultMode: 0440
    {{- end }}
    {{- if and (eq $role "controller") (include "barnabas.hasOperatorSecret" $root) }}
    - name: operator-tls
      secret:
        secretName: {{ include "barnabas.fullname" $root }}-operator-admin
        defaultMode: 0440
    {{- end }}
    {{- with $root.Values.cluster.laneDirectory }}
    - name: lanes
      hostPath:
        path: {{ . | quote }}
        # Kubernetes creates a missing one as root's: its pods then use the network.
        type: DirectoryOrCreate
    {{- end }}
{{- end -}}

{{- define "barnabas.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "barnabas.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Call with (list . "gateway" "soft"). */}}
{{- define "barnabas.antiAffinity" -}}
{{- $labels := list (index . 0) (index . 1) -}}
{{- if eq (index . 2) "hard" -}}
requiredDuringSchedulingIgnoredDuringExecution:
  - topologyKey: kubernetes.io/hostname
    labelSelector:
      matchLabels:
        {{- include "barnabas.selectorLabels" $labels | nindent 8 }}
{{- else -}}
preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "barnabas.selectorLabels" $labels | nindent 10 }}
{{- end -}}
{{- end -}}

{{/* Restart a container that doesn't answer at all, ready or not: its event loop has stopped. Call with (list . "gateway" 9400). */}}
{{- define "barnabas.livenessProbe" -}}
{{- $asked := include "barnabas.probe" (append . "liveness") -}}
startupProbe:
  {{ $asked }}
  periodSeconds: 2
  timeoutSeconds: {{ include "barnabas.probeSeconds" (list (index . 0) 2) }}
  failureThreshold: 60
livenessProbe:
  {{ $asked }}
  periodSeconds: 10
  timeoutSeconds: {{ include "barnabas.probeSeconds" (list (index . 0) 5) }}
  failureThreshold: 6
{{- end -}}

{{- define "barnabas.metricsPort" -}}
{{- if .Values.metrics.enabled }}
- name: metrics
  containerPort: 9404
{{- end }}
{{- end -}}
