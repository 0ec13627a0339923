{{- /*
The reference of an image: (list $ "manager"). A chart without images, such as that of the source tree, is refused,
because the install would wait for an image that no registry has.
*/ -}}
{{- define "capstan.image" -}}
{{- $values := (index . 0).Values.image -}}
{{- $image := index $values (index . 1) -}}
{{- if or (not $values.registry) (not (or $image.digest $image.tag)) -}}
{{- fail (printf "image.registry and image.%s.digest are not set: use the chart of a release, or make one with \"make release REGISTRY=...\"" (index . 1)) -}}
{{- end -}}
{{- printf "%s/%s" $values.registry $image.repository -}}
{{- if $image.digest -}}
{{- printf "@%s" $image.digest -}}
{{- else -}}
{{- printf ":%s" $image.tag -}}
{{- end -}}
{{- end -}}
