package jobspec

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

const (
	// launcherPath is where the launcher lies in its image: ko puts each program there.
	launcherPath = "/ko-app/launcher"
	// launcherContainerName is the init container that copies the launcher.
	launcherContainerName = "launcher"
	// unprivilegedUser is the user and group that everything in the pod runs as.
	unprivilegedUser int64 = 65532
	// gracePeriodSeconds is how long the pod may take to end. The launcher passes on the signal and reports within it.
	gracePeriodSeconds int64 = 2
	// lostNodeSeconds is how long a pod that can be replaced stays on a node that is not ready.
	lostNodeSeconds int64 = 30
	// terminationMessageFile is where the kubelet looks for the report.
	terminationMessageFile = "/dev/termination-log"
)

// The mounts and their paths. Each directory of the runtime has its own volume.
const (
	launcherVolume  = "capstan-launcher"
	launcherMount   = "/capstan/launcher"
	argumentsVolume = "capstan-arguments"
	argumentsMount  = "/capstan/arguments"
	argumentsName   = "arguments.json"
	startVolume     = "capstan-start"
	startMount      = "/capstan/start"
	startMarkName   = "started"
	scratchVolume   = "capstan-tmp"
	scratchMount    = "/tmp"
	filesVolume     = "capstan-files"
	filesMount      = "/workspace"
	filesName       = "files"
	tokenVolume     = "capstan-token"
	tokenMount      = "/capstan/token"
	tokenName       = "token"
	caName          = "ca.crt"
)

// podSpec returns the pod of a call: one container, restricted, without any access that the Tool does not declare.
func podSpec(p Params) corev1.PodSpec {
	spec := corev1.PodSpec{
		Containers:                    []corev1.Container{toolContainer(p)},
		Volumes:                       volumes(p),
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To(gracePeriodSeconds),
		ServiceAccountName:            accountName(p.Tool.Job),
		AutomountServiceAccountToken:  ptr.To(p.Tool.Job.ServiceAccountName != "" && p.Capability == ""),
		ImagePullSecrets:              pullSecrets(p.Tool.Job),
		EnableServiceLinks:            ptr.To(false),
		PriorityClassName:             p.Launcher.PriorityClass,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			RunAsUser:      ptr.To(unprivilegedUser),
			RunAsGroup:     ptr.To(unprivilegedUser),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if tool.AtMostOnce(p.Call) {
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateStart}}
	} else {
		spec.Tolerations = leaveLostNodes()
	}
	if p.Launcher.RuntimeClass != "" {
		spec.RuntimeClassName = ptr.To(p.Launcher.RuntimeClass)
	}
	if p.Launcher.UserNamespaces {
		spec.HostUsers = ptr.To(false)
	}
	if p.Launcher.Delivery == DeliveryInitContainer {
		spec.InitContainers = []corev1.Container{launcherContainer(p.Launcher)}
	}
	return spec
}

// leaveLostNodes makes the cluster evict the pod soon after it has lost the node, instead of after the usual five
// minutes: the call can be retried on another node. A call that cannot be retried keeps the time in which its node may
// come back with the result.
func leaveLostNodes() []corev1.Toleration {
	var tolerations []corev1.Toleration
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, corev1.Toleration{
			Key:               taint,
			Operator:          corev1.TolerationOpExists,
			Effect:            corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To(lostNodeSeconds),
		})
	}
	return tolerations
}

// toolContainer runs the tool's command through the launcher.
func toolContainer(p Params) corev1.Container {
	job := p.Tool.Job
	command := append([]string{launcherCommand(p.Launcher), "run", "--"}, job.Command...)
	container := corev1.Container{
		Name:                     v1alpha1.ToolContainerName,
		Image:                    job.Image,
		ImagePullPolicy:          job.ImagePullPolicy,
		Command:                  command,
		Args:                     append([]string(nil), job.Args...),
		Env:                      containerEnvironment(p),
		Resources:                resources(job.Resources),
		TerminationMessagePath:   terminationMessageFile,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          restricted(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: launcherVolume, MountPath: launcherMount, ReadOnly: true},
			{Name: argumentsVolume, MountPath: argumentsMount, ReadOnly: true},
			{Name: startVolume, MountPath: startMount},
			{Name: scratchVolume, MountPath: scratchMount},
		},
	}
	if p.Capability != "" {
		runsProgram(&container, p.Launcher)
	}
	if p.Files != "" {
		container.WorkingDir = filesMount
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: filesVolume, MountPath: filesMount})
	}
	return container
}

// launcherContainer copies the launcher to where the tool's container finds it.
func launcherContainer(launcher Launcher) corev1.Container {
	return corev1.Container{
		Name:                     launcherContainerName,
		Image:                    launcher.Image,
		ImagePullPolicy:          launcher.PullPolicy,
		Command:                  []string{launcherPath, "copy", launcherCommand(launcher)},
		Resources:                resources(nil),
		TerminationMessagePath:   terminationMessageFile,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          restricted(),
		VolumeMounts:             []corev1.VolumeMount{{Name: launcherVolume, MountPath: launcherMount}},
	}
}

// launcherCommand is where the launcher lies in the tool's container: the image volume shows the whole image, the init
// container copies one file.
func launcherCommand(launcher Launcher) string {
	if launcher.Delivery == DeliveryInitContainer {
		return path.Join(launcherMount, path.Base(launcherPath))
	}
	return path.Join(launcherMount, launcherPath)
}

func volumes(p Params) []corev1.Volume {
	annotations := []corev1.DownwardAPIVolumeFile{annotated(argumentsName, v1alpha1.AnnotationArguments)}
	if p.Files != "" {
		annotations = append(annotations, annotated(filesName, v1alpha1.AnnotationFiles))
	}
	all := []corev1.Volume{
		{Name: launcherVolume, VolumeSource: launcherSource(p.Launcher)},
		{Name: argumentsVolume, VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: annotations},
		}},
		{Name: startVolume, VolumeSource: emptyDir("1Mi")},
		{Name: scratchVolume, VolumeSource: emptyDir("64Mi")},
	}
	if p.Files != "" {
		all = append(all, corev1.Volume{Name: filesVolume, VolumeSource: emptyDir("64Mi")})
	}
	if p.Capability != "" {
		all = append(all, corev1.Volume{Name: tokenVolume, VolumeSource: tokenSource()})
	}
	return all
}

// annotated is a file with the value of an annotation of the pod.
func annotated(name, annotation string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{
		Path: name,
		FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1",
			FieldPath:  "metadata.annotations['" + annotation + "']",
		},
	}
}

func launcherSource(launcher Launcher) corev1.VolumeSource {
	if launcher.Delivery == DeliveryInitContainer {
		return emptyDir("64Mi")
	}
	return corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: launcher.Image, PullPolicy: launcher.PullPolicy},
	}
}

// emptyDir is kept on disk, so that the start mark outlives the node's memory.
func emptyDir(limit string) corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse(limit))}}
}

// restricted returns the container settings of the restricted Pod Security Standard, and a read-only root.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsNonRoot:             ptr.To(true),
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}
