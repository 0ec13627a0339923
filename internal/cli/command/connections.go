package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// The grants of connect.
const (
	grantToken       = "token"
	grantRefresh     = "refresh-token"
	grantCredentials = "client-credentials"
)

// newConnection is what connect writes, without secret values.
type newConnection struct {
	hosts, tokenHosts                []string
	grant, expiry                    string
	client, tokenURL, clientID, mode string
	public                           bool
	scopes                           []string
}

func (p *program) connectProvider() *cobra.Command {
	var n newConnection
	cmd := &cobra.Command{
		Use:   "connect PROVIDER --host HOST",
		Short: "Store your token for a provider, which tools then use in your Turns",
		Long: `Store your own token for a provider as a Secret of the namespace, with your own permissions: create or patch
on that Secret. Tools that use the connection send the token to the hosts that you name, and to no others, and only in
Turns that you have submitted. The token is read from the terminal, without showing it, or from the standard input.

With --grant refresh-token the manager exchanges a refresh token for access tokens, and with --grant client-credentials
the id and secret of a client. The values are read in this order, one in a line: the token or the refresh token, then
the secret of the client.`,
		Example: `  kubectl capstan connect github --host api.github.com
  pass show github | kubectl capstan connect github --host api.github.com
  kubectl capstan connect crm --host crm.example --grant refresh-token --oauth-client app --token-host login.example`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.storeConnection(cmd.Context(), arguments[0], n)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&n.hosts, "host", nil, "A host, or host:port, that the token may be sent to. Required.")
	f.StringVar(&n.grant, "grant", grantToken, "What is stored: token, refresh-token or client-credentials.")
	f.StringVar(&n.expiry, "expiry", "", "When the token expires, in RFC 3339.")
	f.StringVar(&n.client, "oauth-client", "", "The Secret with the OAuth client, for a refresh token.")
	f.StringSliceVar(&n.tokenHosts, "token-host", nil,
		"A host, or host:port, of the token endpoint, which the refresh token may be sent to. Required with --oauth-client.")
	f.StringVar(&n.tokenURL, "token-url", "", "The token endpoint of the provider, without --oauth-client.")
	f.StringVar(&n.clientID, "client-id", "", "The id of your OAuth client, without --oauth-client.")
	f.BoolVar(&n.public, "public-client", false, "The OAuth client has no secret.")
	f.StringVar(&n.mode, "client-authentication", "", "How the client proves to be itself: header (default) or body.")
	f.StringSliceVar(&n.scopes, "scope", nil, "A scope to request, with client-credentials.")
	cmd.MarkFlagsMutuallyExclusive("oauth-client", "token-url")
	cmd.MarkFlagsMutuallyExclusive("oauth-client", "client-id")
	cmd.MarkFlagsRequiredTogether("oauth-client", "token-host")
	if err := cmd.MarkFlagRequired("host"); err != nil {
		panic(err) // the flag is that of above
	}
	return cmd
}

// secrets are the keys whose values are read, in order.
func (n newConnection) secrets() ([]string, error) {
	own := []string{connection.KeyClientSecret}
	if n.client != "" || n.public {
		own = nil
	}
	switch n.grant {
	case grantToken:
		return []string{connection.KeyToken}, nil
	case grantRefresh:
		return append([]string{connection.KeyRefreshToken}, own...), nil
	case grantCredentials:
		if own == nil {
			return nil, usage("client-credentials needs --token-url, --client-id and the secret of a client of your own")
		}
		return own, nil
	default:
		return nil, usage("--grant is token, refresh-token or client-credentials")
	}
}

func (p *program) storeConnection(ctx context.Context, provider string, n newConnection) error {
	if !tool.ValidProvider(provider) {
		return usage("%q is not the name of a provider: at most 63 characters of a-z, 0-9, '.', '_' and '-'", provider)
	}
	keys, err := n.secrets()
	if err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	user, err := c.User(ctx)
	if err != nil {
		return err
	}
	values, err := p.hiddenValues(keys)
	if err != nil {
		return err
	}
	secret := n.secret(connection.Of{Namespace: c.Namespace, Provider: provider, User: user}, values)
	read := func(string) (*corev1.Secret, error) { return nil, nil }
	if n.client != "" {
		read = nil // It may be one that the user may not read.
	}
	of := connection.Of{Namespace: c.Namespace, Provider: provider, User: user}
	if _, err := connection.Parse(secret, of, read); err != nil && n.client == "" {
		return usage("the connection could not be used: %s", err)
	}
	if err := writeConnection(ctx, c, secret); err != nil {
		return err
	}
	return p.out.Lines(text.Format(text.Plain, "%s is connected to %s in namespace %s, for %s.", user, provider,
		c.Namespace, strings.Join(n.hosts, ", ")))
}

// secret returns the Secret of the connection.
func (n newConnection) secret(of connection.Of, values map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: connection.Name(of.Provider, of.User),
			Labels: map[string]string{v1alpha1.LabelConnection: of.Provider},
			Annotations: map[string]string{
				v1alpha1.AnnotationConnectionOwner: of.User,
				v1alpha1.AnnotationAllowedHosts:    strings.Join(n.hosts, ","),
			},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	if n.client != "" {
		s.Annotations[v1alpha1.AnnotationOAuthClient] = n.client
		s.Annotations[v1alpha1.AnnotationTokenHosts] = strings.Join(n.tokenHosts, ",")
	}
	for key, value := range values {
		s.Data[key] = []byte(value)
	}
	for key, value := range map[string]string{
		connection.KeyExpiry: n.expiry, connection.KeyTokenURL: n.tokenURL, connection.KeyClientID: n.clientID,
		connection.KeyClientAuthentication: n.mode, connection.KeyScopes: strings.Join(n.scopes, " "),
	} {
		if value != "" {
			s.Data[key] = []byte(value)
		}
	}
	return s
}

// writeConnection creates the Secret, or replaces what it has. It does not read it: users need create and patch only.
func writeConnection(ctx context.Context, c *access.Cluster, secret *corev1.Secret) error {
	err := c.Create(ctx, secret.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		patch, encoding := json.Marshal([]map[string]any{
			{"op": "add", "path": "/data", "value": secret.Data},
			{"op": "add", "path": "/metadata/labels", "value": secret.Labels},
			{"op": "add", "path": "/metadata/annotations", "value": secret.Annotations},
		})
		if encoding != nil {
			return fmt.Errorf("encoding the connection: %w", encoding)
		}
		err = c.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", secret.Name, err)
	}
	return nil
}

// maxSecretLine is the longest line of the standard input.
const maxSecretLine = connection.MaxTokenBytes + 2

// hiddenValues reads one value for each key: from the terminal without showing it, or from lines of the standard input.
func (p *program) hiddenValues(keys []string) (map[string]string, error) {
	values := map[string]string{}
	terminal, ok := p.in.(*os.File)
	ok = ok && term.IsTerminal(int(terminal.Fd()))
	lines := bufio.NewReaderSize(p.in, maxSecretLine)
	for _, key := range keys {
		var line []byte
		var err error
		if ok {
			if err := p.err.Lines(text.Format(text.Plain, "%s (it is not shown):", key)); err != nil {
				return nil, err
			}
			line, err = term.ReadPassword(int(terminal.Fd()))
		} else {
			line, err = lines.ReadSlice('\n')
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = nil
			}
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, usage("the %s has more than %d bytes", key, connection.MaxTokenBytes)
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("reading the %s: %w", key, err)
		case len(line) == 0:
			return nil, usage("there is no %s: it is read from the terminal or the standard input", key)
		}
		values[key] = string(line)
	}
	return values, nil
}

func (p *program) disconnect() *cobra.Command {
	return &cobra.Command{
		Use:   "disconnect PROVIDER",
		Short: "Delete your connection to a provider",
		Long: `Delete your connection to a provider, and with it the token that tools use in your Turns. It takes delete on
the Secret. Revoke the token at the provider as well.`,
		Example:           `  kubectl capstan disconnect github`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.deleteConnection(cmd.Context(), arguments[0])
		},
	}
}

func (p *program) deleteConnection(ctx context.Context, provider string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	user, err := c.User(ctx)
	if err != nil {
		return err
	}
	name := connection.Name(provider, user)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
	switch err := c.Delete(ctx, secret); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s has no connection to %s in namespace %s", user, provider, c.Namespace)
	case err != nil:
		return fmt.Errorf("deleting Secret %s: %w", name, err)
	}
	return p.out.Lines(text.Format(text.Plain, "%s is not connected to %s any more.", user, provider))
}

func (p *program) connections() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "connections",
		Short:   "Show the connections of users to providers",
		Example: `  kubectl capstan connections ls`,
		Args:    cobra.NoArgs,
	}
	var all bool
	list := &cobra.Command{
		Use:   "ls",
		Short: "List your connections in the namespace",
		Long: `List your connections in the namespace: provider, user, hosts and Secret. Tokens are not read. It takes list on
Secrets.`,
		Example: `  kubectl capstan connections ls
  kubectl capstan connections ls --all-users`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.listConnections(cmd.Context(), all) },
	}
	list.Flags().BoolVar(&all, "all-users", false, "List the connections of all users.")
	cmd.AddCommand(list)
	return cmd
}

func (p *program) listConnections(ctx context.Context, all bool) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	user, err := c.User(ctx)
	if err != nil {
		return err
	}
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, found, client.InNamespace(c.Namespace), client.HasLabels{v1alpha1.LabelConnection}); err != nil {
		return fmt.Errorf("listing the connections: %w", err)
	}
	var lines []text.Line
	for _, s := range found.Items {
		provider, owner := s.Labels[v1alpha1.LabelConnection], s.Annotations[v1alpha1.AnnotationConnectionOwner]
		if s.Name == connection.Name(provider, owner) && (all || owner == user) {
			lines = append(lines, text.Format(text.Plain, "%s  %s  %s  %s", provider, owner,
				s.Annotations[v1alpha1.AnnotationAllowedHosts], s.Name))
		}
	}
	if len(lines) == 0 {
		return p.out.Lines(text.Format(text.Plain, "There is no connection in namespace %s.", c.Namespace))
	}
	slices.SortFunc(lines, func(a, b text.Line) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return p.out.Lines(append([]text.Line{text.Of(text.Faint, "PROVIDER  USER  HOSTS  SECRET")}, lines...)...)
}
