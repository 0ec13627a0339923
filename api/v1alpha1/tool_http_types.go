package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPMethod is the method of an HTTP tool's request.
// +kubebuilder:validation:Enum=GET;POST;PUT;PATCH;DELETE
type HTTPMethod string

const (
	// HTTPMethodGet reads a resource.
	HTTPMethodGet HTTPMethod = "GET"
	// HTTPMethodPost submits data. It is the default.
	HTTPMethodPost HTTPMethod = "POST"
	// HTTPMethodPut replaces a resource.
	HTTPMethodPut HTTPMethod = "PUT"
	// HTTPMethodPatch changes a resource.
	HTTPMethodPatch HTTPMethod = "PATCH"
	// HTTPMethodDelete deletes a resource.
	HTTPMethodDelete HTTPMethod = "DELETE"
)

// HTTPArguments is where the model's arguments go in an HTTP tool's request.
// +kubebuilder:validation:Enum=Body;Query
type HTTPArguments string

const (
	// HTTPArgumentsBody sends the arguments as a JSON body. It is the default, but for GET.
	HTTPArgumentsBody HTTPArguments = "Body"
	// HTTPArgumentsQuery sends the arguments as parameters of the URL's query. It is the default for GET.
	HTTPArgumentsQuery HTTPArguments = "Query"
)

// HTTPHeader is a header of an HTTP tool's request: with a fixed value, or with the value of a Secret's key.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.secretKeyRef)",message="exactly one of value and secretKeyRef must be set."
type HTTPHeader struct {
	// name of the header. Idempotency-Key, Traceparent and the headers that control the transfer are reserved for the
	// runtime.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['connection', 'content-encoding', 'content-length', 'expect', 'host', 'idempotency-key', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te', 'traceparent', 'trailer', 'transfer-encoding', 'upgrade'])",message="this header is set by the runtime, or says how the request is sent. Leave it out."
	Name string `json:"name"`
	// value of the header.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	Value *string `json:"value,omitempty"`
	// secretKeyRef reads the whole value from a Secret, including a prefix such as `Bearer `. A user who writes the
	// Tool must be allowed to read that Secret. A Secret with the annotation capstan.dev/allowed-hosts is sent only to
	// the hosts listed there. The request is not sent to another host, port or scheme than the url's.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// HTTPTool runs a tool as one HTTP request that the manager sends, over HTTP/1.1. A status of 200 to 299 is success,
// and the body, truncated at 64 KiB, the result; any other status is an error with the start of the body. A url reaches
// only public addresses, and addresses that the operator of the manager has allowed. Up to five redirects are followed.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.serviceRef)",message="exactly one of url and serviceRef must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.arguments) || self.arguments != 'Body' || !has(self.method) || self.method != 'GET'",message="a GET has no body: use arguments Query, or another method."
type HTTPTool struct {
	// url that the request is sent to: https, without user, password and fragment, or http where the operator of the
	// manager has allowed that. A model can only add query parameters to it.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHostname() != ''",message="url must be an absolute https or http URL."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[A-Za-z]+:/*[^/?#]*@')",message="url must not have a user or a password in it: use headers."
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="url must not have a fragment."
	URL string `json:"url,omitempty"`
	// serviceRef is a Service of the same namespace that the request is sent to, instead of a url. A model can only add
	// query parameters.
	// +optional
	ServiceRef *ServiceReference `json:"serviceRef,omitempty"`
	// caBundle is certificates that the server is trusted by, instead of those that the manager trusts.
	// +optional
	CABundle *CABundleSource `json:"caBundle,omitempty"`
	// method of the request: GET, POST (default), PUT, PATCH or DELETE.
	// +optional
	// +kubebuilder:default=POST
	Method HTTPMethod `json:"method,omitempty"`
	// headers of the request, besides Content-Type, Accept, User-Agent, Idempotency-Key and Traceparent; the first
	// three may be replaced.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o.name.lowerAscii() == h.name.lowerAscii()))",message="header names must be unique, regardless of case."
	Headers []HTTPHeader `json:"headers,omitempty"`
	// arguments is where the model's arguments go: Body, as JSON, or Query, as parameters. With Query, every argument
	// must be a scalar that inputSchema declares. Default: Query for GET, Body otherwise.
	// +optional
	Arguments HTTPArguments `json:"arguments,omitempty"`
	// timeout of the request up to the end of the response, 1s to 15m. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('15m'))",message="timeout must be between 1s and 15m."
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}
