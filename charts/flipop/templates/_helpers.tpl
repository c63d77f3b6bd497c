{{- /* The image with its tag or its digest. */ -}}
{{- define "flipop.image" -}}
{{ .Values.image.repository }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /*
The labels of an object: dict "root" $, and "labels" for more of them. Those take the place of the labels of all objects.
*/ -}}
{{- define "flipop.labels" -}}
{{- toYaml (merge (dict "app" "flipop") (.labels | default dict) (.root.Values.labels | default dict)) -}}
{{- end }}

{{- /*
A file of files/ as it is, in the namespace of the release and with the labels of the values: dict "root" $ "file" NAME,
and "labels" for more of them. It stays text, because numbers beyond a million would come back as 1e+09.
*/ -}}
{{- define "flipop.copy" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) | required (printf "files/%s is missing" .file) -}}
{{- $text = replace "namespace: flipop\n" (printf "namespace: %s\n" ($namespace | quote)) $text -}}
{{- $text = replace "system:serviceaccount:flipop:" (printf "system:serviceaccount:%s:" $namespace) $text -}}
{{- with merge (dict) (.labels | default dict) (.root.Values.labels | default dict) -}}
{{- $more := toYaml . | indent 4 -}}
{{- range list "flipop" "flipop-agent" -}}
{{- $own := printf "  labels:\n    app: %s\n" . -}}
{{- $text = replace $own (printf "%s%s\n" $own $more) $text -}}
{{- end -}}
{{- end -}}
{{- $text -}}
{{- end }}

{{- /*
Fails where FLIPOP is installed already by somebody else: names in the cluster are fixed, and two leaders would work
against each other.
*/ -}}
{{- define "flipop.onlyOne" -}}
{{- $release := .Release -}}
{{- with lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "flipop" -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $name := get $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" -}}
{{- if and $name (ne (printf "%s/%s" $namespace $name) (printf "%s/%s" $release.Namespace $release.Name)) -}}
{{- fail (printf "FLIPOP is installed in this cluster already, as release %s in namespace %s. A cluster can have one installation: upgrade that release, or uninstall it first." $name $namespace) -}}
{{- end -}}
{{- range .subjects -}}
{{- if ne .namespace $release.Namespace -}}
{{- fail (printf "FLIPOP is installed in this cluster already, in namespace %s. A cluster can have one installation: use --namespace %s to take it over, or remove it first." .namespace .namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
Fails where an upgrade would leave out CRDs that nothing keeps: Helm would delete them, and with them every object.
*/ -}}
{{- define "flipop.keepsCrds" -}}
{{- if and .Release.IsUpgrade (not .Values.crds.enabled) -}}
{{- range list "floatingippools" "nodednsrecordsets" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (printf "%s.flipop.digitalocean.com" .) -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $own := eq (get $annotations "meta.helm.sh/release-name") $.Release.Name -}}
{{- $own = and $own (eq (get $annotations "meta.helm.sh/release-namespace") $.Release.Namespace) -}}
{{- if and $own (ne (get $annotations "helm.sh/resource-policy") "keep") -}}
{{- fail "crds.enabled=false would delete the CRDs and every object: upgrade with crds.keep=true first" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
