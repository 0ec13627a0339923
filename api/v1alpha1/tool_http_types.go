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

// HTTPHeader is a header of a request: with a fixed value, with the value of a Secret's key, with the token of a user's
// connection, or with a secret of the Session.
// +kubebuilder:validation:XValidation:rule="[has(self.value), has(self.secretKeyRef) || has(self.connection), has(self.sessionSecret)].exists_one(s, s)",message="exactly one of value, secretKeyRef, connection and sessionSecret must be set, but that connection may have a secretKeyRef beside it."
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
	// connection takes the value from the connection to a provider of the user who has submitted the Turn. If that user
	// has none, the call waits until it is set up; with a secretKeyRef beside it, the value of that Secret is sent
	// instead. The discovery of the tools of an MCPServer has no user.
	// +optional
	Connection *HeaderConnection `json:"connection,omitempty"`
	// sessionSecret takes the value from a secret of the Session, which a user sets with `kubectl capstan secret set`. It
	// is sent only to the hosts that it was set for. In a Session without this secret the call is not executed. The
	// discovery of the tools of an MCPServer has no Session, and leaves the header out.
	// +optional
	SessionSecret *HeaderSessionSecret `json:"sessionSecret,omitempty"`
}

// IsSecret reports whether the header has the value of a Secret or of a connection.
func (h HTTPHeader) IsSecret() bool { return h.SecretKeyRef != nil || h.Connection != nil }

// OfSession reports whether the header has a secret of the Session.
func (h HTTPHeader) OfSession() bool { return h.SessionSecret != nil }

// HeaderSessionSecret is a secret of the Session as a header has it: one line of printable ASCII, at most 8 KiB.
type HeaderSessionSecret struct {
	// name of the secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Name string `json:"name"`
	// scheme is sent before the value, with a space between them, such as Bearer. Without it the header is the secret
	// alone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._~+-]+$`
	Scheme string `json:"scheme,omitempty"`
}

// HeaderConnection is the part of a connection that a header has: its token.
type HeaderConnection struct {
	// provider is the name of what the connection is to, such as github.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Provider string `json:"provider"`
	// scheme is sent before the token, with a space between them, such as Bearer. Without it the token is the whole
	// value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._~+-]+$`
	Scheme string `json:"scheme,omitempty"`
}

// SecretArgument is a JSON Pointer (RFC 6901) to an argument that may refer to a secret.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^(/([^/~]|~[01])*)+$`
type SecretArgument string

// HTTPTool runs a tool as one HTTP request that the manager sends, over HTTP/1.1. A status of 200 to 299 is success,
// and the body, truncated at 64 KiB, the result; any other status is an error with the start of the body. A url reaches
// only public addresses, and addresses that the operator of the manager has allowed. Up to five redirects are followed.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.serviceRef)",message="exactly one of url and serviceRef must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.payment) || !has(self.method) || self.method in ['GET', 'POST']",message="payment is for the methods GET and POST."
// +kubebuilder:validation:XValidation:rule="!has(self.payment) || !has(self.secretArguments) && (!has(self.headers) || self.headers.all(h, !has(h.sessionSecret)))",message="a request with secrets of the Session cannot be paid for: leave out payment, or secretArguments and sessionSecret."
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
	// secretArguments are the arguments in which a model may refer to a secret of the Session: an argument that is
	// `secret://NAME` as a whole is sent as the value of the secret NAME, which the model does not see. Elsewhere such a
	// text is sent as it is. A secret is sent only to the hosts that it was set for, and the request is not redirected to
	// another host, port or scheme. Each is a JSON Pointer, such as /auth/token.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	SecretArguments []SecretArgument `json:"secretArguments,omitempty"`
	// timeout of the request up to the end of the response, 1s to 15m. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('15m'))",message="timeout must be between 1s and 15m."
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// payment lets the manager pay for a call if the server asks for it with status 402, and then send the request once
	// more. Without it nothing is paid. It takes effect only if the operator of the manager has enabled payments. The
	// model does not learn of a payment.
	// +optional
	Payment *HTTPPayment `json:"payment,omitempty"`
}

// PaymentRail is a way to make payments.
// +kubebuilder:validation:Enum=X402Base
type PaymentRail string

// PaymentRailX402Base pays by the protocol x402, version 2: exact payments in USDC on Base.
const PaymentRailX402Base PaymentRail = "X402Base"

// PaymentNetwork is a network on which payments are made.
// +kubebuilder:validation:Enum=Base;BaseSepolia
type PaymentNetwork string

const (
	// PaymentNetworkBase is the main network. It is the default.
	PaymentNetworkBase PaymentNetwork = "Base"
	// PaymentNetworkBaseSepolia is the test network, whose money has no value.
	PaymentNetworkBaseSepolia PaymentNetwork = "BaseSepolia"
)

// Dollars is an amount in US dollars: a decimal with up to six places, such as 0.05.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^[0-9]{1,9}([.][0-9]{1,6})?$`
// +kubebuilder:validation:XValidation:rule="self.matches('[1-9]')",message="the amount must be more than 0."
type Dollars string

// PaymentAddress is the address of an account: 0x and 40 hexadecimal digits.
// +kubebuilder:validation:MinLength=42
// +kubebuilder:validation:MaxLength=42
// +kubebuilder:validation:Pattern=`^0x[0-9a-fA-F]{40}$`
type PaymentAddress string

// HTTPPayment is how the manager may pay for the calls of a tool. A call is paid at most once, and a payment that may
// have been made counts in full, also where the server does not confirm it. One USDC counts as one US dollar.
type HTTPPayment struct {
	// rail to pay by: X402Base.
	// +required
	Rail PaymentRail `json:"rail"`
	// network that payments are made on: Base (default) or BaseSepolia.
	// +optional
	// +kubebuilder:default=Base
	Network PaymentNetwork `json:"network,omitempty"`
	// walletRef reads the private key of the account that pays: 64 hexadecimal digits. The Secret must be a wallet: with
	// the annotation capstan.dev/wallet-max-per-day, the most that may be paid from it in a day, and with
	// capstan.dev/allowed-hosts, which lists the host of the url. A user who writes the Tool needs the verb pay on the
	// Secret.
	// +required
	WalletRef SecretKeyReference `json:"walletRef"`
	// maxAmount is the most that one call may cost.
	// +required
	MaxAmount Dollars `json:"maxAmount"`
	// maxAmountPerTurn is the most that a Turn may have paid, with all of its tools, after a payment of this tool. Without
	// it, the other limits apply.
	// +optional
	MaxAmountPerTurn Dollars `json:"maxAmountPerTurn,omitempty"`
	// maxAmountPerSession is the most that a Session may have paid, with all of its tools, after a payment of this tool.
	// Sub-agents have Sessions of their own. Without it, the other limits apply.
	// +optional
	MaxAmountPerSession Dollars `json:"maxAmountPerSession,omitempty"`
	// payees are the accounts that may be paid. Without it, every account that the server names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Payees []PaymentAddress `json:"payees,omitempty"`
}
