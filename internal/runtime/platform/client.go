package platform

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// maxResponseBytes is the most that is read of a response. An object has at most 1.5 MiB.
	maxResponseBytes = 8 << 20
	// maxTokenBytes bounds a token. Those of ServiceAccounts have about 1 KiB.
	maxTokenBytes = 16 << 10
	// maxErrorBytes is the most of an error of the API server that the model reads.
	maxErrorBytes = 2 << 10
	// requestTimeout is how long one request may take, unless it is a watch.
	requestTimeout = 20 * time.Second
	// longestPause is the longest pause between two requests.
	longestPause = 10 * time.Second
)

// group is the path of the API, below which are the namespaces.
const group = "/apis/capstan.dev/v1alpha1/namespaces/"

// The formats of requests and responses.
const (
	asJSON       = "application/json"
	asMergePatch = "application/merge-patch+json"
	asTable      = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// api is the API server, as the ServiceAccount.
type api struct {
	base, tokenFile string
	http            *http.Client
	// namespace and user are those of the ServiceAccount.
	namespace, user string
	// pause is the first pause before a request is repeated.
	pause time.Duration
}

// refusal is a response of the API server other than success.
type refusal struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (r *refusal) Error() string {
	if r.Message == "" {
		return fmt.Sprintf("the API server responded with status %d", r.Code)
	}
	return "the API server refused: " + head(r.Message, maxErrorBytes)
}

// has reports whether an error is a response with the status.
func has(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.Code == status
}

// connect returns the API server of the cluster, of which the kubelet tells every container.
func connect(getenv func(string) string) (*api, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("the variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	certificates, err := os.ReadFile(getenv(result.EnvCAFile))
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of the API server: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificates) {
		return nil, errors.New("reading the certificates of the API server: the file has none")
	}
	a := &api{
		base:      "https://" + net.JoinHostPort(host, port),
		tokenFile: getenv(result.EnvTokenFile),
		pause:     250 * time.Millisecond,
		http: &http.Client{
			// Without a proxy: it is the API server of this cluster, or nothing.
			Transport: &http.Transport{
				TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: requestTimeout,
				DialContext:         (&net.Dialer{Timeout: requestTimeout}).DialContext,
				ForceAttemptHTTP2:   true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	a.user, a.namespace, err = identityOf(token)
	return a, err
}

// token reads the token, which the kubelet renews.
func (a *api) token() (string, error) {
	file, err := os.Open(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the token of the ServiceAccount: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxTokenBytes))
	if err != nil {
		return "", fmt.Errorf("reading the token of the ServiceAccount: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// identityOf returns the user that a token stands for, and its namespace. The API server checks the token; here it says
// only where the objects are.
func identityOf(token string) (user, namespace string, err error) {
	invalid := errors.New("reading the token of the ServiceAccount: it is not one of a ServiceAccount")
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", "", invalid
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", "", invalid
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return "", "", invalid
	}
	account := strings.Split(claims.Subject, ":")
	if len(account) != 4 || account[0] != "system" || account[1] != "serviceaccount" || !validName(account[2]) {
		return "", "", invalid
	}
	return claims.Subject, account[2], nil
}

// request is one request to the API server.
type request struct {
	method string
	kind   kind
	// name of the object; empty for all.
	name  string
	query url.Values
	// format of the body, and accept that of the response; empty for JSON.
	format, accept string
	body           any
}

// do sends a request and decodes the response. It repeats a request that may succeed later, until the call has no time
// left: creations have a name that follows from the call, and a patch results in the same object. An API server that
// restarts is away for longer than a few attempts, and a model that is told so repeats the call under another name.
func (a *api) do(ctx context.Context, r request, into any) error {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause, unanswered := a.pause, false
	var last error
	for {
		after, err := a.once(ctx, r, body, into)
		if err == nil {
			return nil
		}
		unanswered = unanswered || !answered(err)
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if after < 0 || !rest(ctx, min(max(pause, after), longestPause)) {
			break
		}
		pause = min(2*pause, longestPause)
	}
	if unanswered && r.method != http.MethodGet {
		return &unknownOutcome{cause: last}
	}
	return last
}

// unknownOutcome is the error of a request that changes something and that the API server may have carried out, because
// not all of its attempts were answered.
type unknownOutcome struct{ cause error }

func (e *unknownOutcome) Error() string {
	return "it is not known whether the API server has carried out the request, check that before you repeat the call: " +
		e.cause.Error()
}

func (e *unknownOutcome) Unwrap() error { return e.cause }

// mayBeDone reports whether the request of an error may have been carried out.
func mayBeDone(err error) bool {
	var unknown *unknownOutcome
	return errors.As(err, &unknown)
}

// answered reports whether an error is a response by which the API server has not carried out the request.
func answered(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.Code < http.StatusInternalServerError
}

// errTooLarge is the error of a response that is not read to its end.
var errTooLarge = fmt.Errorf("the response of the API server has more than %d bytes", maxResponseBytes)

// once sends a request once. after is how long to wait before the next attempt, and negative if there must be none.
func (a *api) once(ctx context.Context, r request, body []byte, into any) (after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := a.send(ctx, r, body)
	var authority *tls.CertificateVerificationError
	switch {
	case errors.As(err, &authority):
		return -1, err
	case err != nil:
		return 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading the response of the API server: %w", err)
	case len(raw) > maxResponseBytes:
		return -1, errTooLarge
	case response.StatusCode < 200 || response.StatusCode > 299:
		return again(response), refused(response.StatusCode, raw)
	case into == nil:
		return -1, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return -1, errors.New("the response of the API server is not valid")
	}
	return -1, nil
}

// send sends a request and returns the response with its body.
func (a *api) send(ctx context.Context, r request, body []byte) (*http.Response, error) {
	address := a.base + group + a.namespace + "/" + r.kind.resource
	if r.name != "" {
		address += "/" + r.name
	}
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request to the API server is not valid")
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	sent.Header.Set("Authorization", "Bearer "+token)
	sent.Header.Set("Accept", orJSON(r.accept))
	sent.Header.Set("User-Agent", "capstan-platform")
	if body != nil {
		sent.Header.Set("Content-Type", orJSON(r.format))
	}
	response, err := a.http.Do(sent)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the API server: %w", reasonOf(err))
	}
	return response, nil
}

// reasonOf returns the cause of a failed request without its address.
func reasonOf(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func orJSON(format string) string {
	if format == "" {
		return asJSON
	}
	return format
}

// refused reads the Status of a response.
func refused(code int, raw []byte) error {
	r := &refusal{}
	if json.Unmarshal(raw, r) != nil {
		r = &refusal{}
	}
	r.Code = code
	return r
}

// again returns how long to wait before a request is repeated, and a negative value if it must not be.
func again(response *http.Response) time.Duration {
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || seconds < 0 {
			return 0
		}
		return time.Duration(min(seconds, int(longestPause/time.Second))) * time.Second
	default:
		return -1
	}
}

// rest waits, and reports whether there is time left.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// head returns the start of a text, valid and with a mark if it was cut.
func head(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// encodedHead returns the start of a text whose JSON string has at most so many bytes, with a mark if it was cut.
func encodedHead(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	bytes, fits := 0, 0
	for at, char := range text {
		if bytes+len(cutMark) <= most {
			fits = at
		}
		if bytes += encodedRune(char); bytes > most {
			return text[:fits] + cutMark
		}
	}
	return text
}

// cutMark ends a text that was cut.
const cutMark = "..."

// encodedBytes is the size of a valid text in JSON, without its quotes.
func encodedBytes(text string) int {
	n := 0
	for _, char := range text {
		n += encodedRune(char)
	}
	return n
}

// encodedRune is the size of a character in the JSON that encode writes.
func encodedRune(char rune) int {
	switch {
	case char == '"', char == '\\', char == '\n', char == '\r', char == '\t', char == '\b', char == '\f':
		return 2
	case char < ' ', char == '\u2028', char == '\u2029':
		return 6
	default:
		return utf8.RuneLen(char)
	}
}
