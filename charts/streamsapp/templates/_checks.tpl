{{/* Checks beyond the schema: places of images, and names for this chart alone. Rendered with the Deployment. */}}
{{- define "streamsapp.checks" -}}
{{- range $name, $values := pick .Values "operator" "runtime" "spark" }}
{{- if not (or $values.image.registry $.Values.global.imageRegistry) }}
{{- fail (printf "\n\n%s.image names no registry, and no registry has this image yet. Build the images and push them where your nodes pull from, and say where that is:\n\n  for image in operator runtime spark; do\n    docker build -f images/$image.Dockerfile -t registry.example/team/streamsapp-$image:%s . && docker push registry.example/team/streamsapp-$image:%s\n  done\n  helm install %s ... --set global.imageRegistry=registry.example/team\n\nIf your nodes have the images already, as after `make cluster-up`: --set global.imageRegistry=localhost, and --set for operator.image.tag, runtime.image.tag and spark.image.tag, as dev.\n" $name $.Chart.AppVersion $.Chart.AppVersion $.Release.Name) }}
{{- end }}
{{- end }}
{{- if .Chart.IsRoot }}
{{- range $name := keys (omit .Values.global "imageRegistry" "imagePullSecrets") | sortAlpha }}
{{- fail (printf "global.%s is no value of this chart; it has global.imageRegistry and global.imagePullSecrets" $name) }}
{{- end }}
{{- end }}
{{- end }}
