package v1alpha1

// ServiceScheme is how a Service is reached.
// +kubebuilder:validation:Enum=HTTP;HTTPS
type ServiceScheme string

const (
	// ServiceSchemeHTTP is HTTP without encryption.
	ServiceSchemeHTTP ServiceScheme = "HTTP"
	// ServiceSchemeHTTPS is HTTP over TLS.
	ServiceSchemeHTTPS ServiceScheme = "HTTPS"
)

// ServiceReference is a port of a Service in the same namespace. The manager connects to a pod of the Service that is
// Ready. The Service must have a selector. In network access lists, in the annotation capstan.dev/allowed-hosts of
// Secrets and in certificates its name is SERVICE.NAMESPACE.svc. A user who writes the reference needs the permission
// to create services/proxy for the Service. NetworkPolicies of the namespace must admit the manager.
type ServiceReference struct {
	// name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// port of the Service, 1 to 65535.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// scheme is HTTP (default) or HTTPS. The value of a Secret is sent over HTTP only if the Secret lists
	// http://SERVICE.NAMESPACE.svc:PORT in its annotation capstan.dev/allowed-hosts.
	// +optional
	Scheme ServiceScheme `json:"scheme,omitempty"`
	// path of the requests, which begins with a slash, without query and fragment. Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('%($|[^0-9A-Fa-f]|[0-9A-Fa-f]($|[^0-9A-Fa-f]))')",message="path has a % that is not followed by two hexadecimal digits."
	Path string `json:"path,omitempty"`
}

// ConfigMapKeyReference names one key of a ConfigMap in the same namespace.
type ConfigMapKeyReference struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key in the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// CABundleSource is where certificates in PEM form are, at most 65536 bytes. The manager needs the role
// capstan-manager-secrets in the namespace to read them, and a user who writes the reference must be allowed to read
// the object.
// +kubebuilder:validation:XValidation:rule="has(self.configMapKeyRef) != has(self.secretKeyRef)",message="exactly one of configMapKeyRef and secretKeyRef must be set."
type CABundleSource struct {
	// configMapKeyRef is the ConfigMap and key that hold the certificates.
	// +optional
	ConfigMapKeyRef *ConfigMapKeyReference `json:"configMapKeyRef,omitempty"`
	// secretKeyRef is the Secret and key that hold the certificates.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}
