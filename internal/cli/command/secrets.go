package command

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
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
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
)

func (p *program) secrets() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Set, list and remove the secrets of a Session",
		Long: `Set, list and remove the secrets of a Session, which are in one Secret of the namespace. Models know their
names only. A model may write secret://NAME in the arguments that a Tool or an MCPServer names in secretArguments; the
manager sends the value instead, to the hosts that the secret was set for and to no others.`,
	}
	cmd.AddCommand(p.secretSet(), p.secretList(), p.secretRemove())
	return cmd
}

// ofSession adds the flag that names the Session.
func (p *program) ofSession(cmd *cobra.Command, session *string) *cobra.Command {
	cmd.Flags().StringVar(session, "session", "", "The Session. Required.")
	for _, err := range []error{
		cmd.MarkFlagRequired("session"),
		cmd.RegisterFlagCompletionFunc("session", p.sessions),
	} {
		if err != nil {
			panic(err) // the flag is that of above
		}
	}
	return cmd
}

func (p *program) secretSet() *cobra.Command {
	var session, file string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "set NAME --session SESSION --host HOST",
		Short: "Set a secret of a Session",
		Long: `Set a secret of a Session, or replace it, with your own permissions: create or patch on the Secret, and update
on sessions/secrets, which the role capstan-edit has. The value is read from a file, from the terminal, without showing
it, or from the standard input: 4 bytes to 16 KiB of ASCII. A line break at the end is removed, unless it comes from a
file. Without --host the secret is sent nowhere. To change the hosts, set the secret again.`,
		Example: `  kubectl capstan secret set stripe --session demo --host api.stripe.com
  pass show stripe | kubectl capstan secret set stripe --session demo --host api.stripe.com
  kubectl capstan secret set deploy-key --session demo --host git.example.com:8443 --from-file key.pem`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.setSecret(cmd.Context(), arguments[0], session, file, hosts)
		},
	}
	cmd.Flags().StringSliceVar(&hosts, "host", nil,
		"A host, host:port or http://host:port, that the value may be sent to. May be repeated.")
	cmd.Flags().StringVar(&file, "from-file", "", "A file with the value.")
	return p.ofSession(cmd, &session)
}

func (p *program) setSecret(ctx context.Context, name, session, file string, hosts []string) error {
	if !sessionsecret.ValidName(name) {
		return usage("%q is not the name of a secret: at most %d characters of a-z, 0-9, '.', '_' and '-'", name,
			sessionsecret.MaxNameBytes)
	}
	for _, host := range hosts {
		if !validHost(host) {
			return usage("%q is not a host: use host, host:port or http://host:port", host)
		}
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	of, err := findSession(ctx, c, session)
	if err != nil {
		return err
	}
	value, err := p.secretValue(name, file)
	if err != nil {
		return err
	}
	if problem := sessionsecret.ValueProblem(string(value)); problem != "" {
		return usage("this cannot be the value of a secret: %s", problem)
	}
	secret, err := newSecret(of, name, value, hosts)
	if err != nil {
		return err
	}
	if err := writeSecret(ctx, c, secret); err != nil {
		return err
	}
	where := "nowhere, because it has no --host"
	if len(hosts) > 0 {
		where = "to " + strings.Join(hosts, ", ")
	}
	return p.out.Lines(text.Format(text.Plain, "secret %s of Session %s is set, and is sent %s", name, of.Name, where))
}

// validHost reports whether a text is an entry of a list of hosts.
func validHost(entry string) bool {
	host := strings.TrimPrefix(strings.TrimPrefix(entry, "https://"), "http://")
	u, err := url.Parse("https://" + host)
	return err == nil && u.Host == host && u.Hostname() != "" && !strings.ContainsAny(host, ", *@")
}

// secretValue reads the value of a secret.
func (p *program) secretValue(name, file string) ([]byte, error) {
	if file != "" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the value: %w", err)
		}
		defer opened.Close()
		return readValue(opened)
	}
	terminal, ok := p.in.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		value, err := readValue(p.in)
		return bytes.TrimRight(value, "\r\n"), err
	}
	if err := p.err.Lines(text.Format(text.Plain, "value of %s (it is not shown):", name)); err != nil {
		return nil, err
	}
	value, err := term.ReadPassword(int(terminal.Fd()))
	if err != nil {
		return nil, fmt.Errorf("reading the value: %w", err)
	}
	return value, nil
}

// readValue reads no more than is needed to know that a value is too long.
func readValue(from io.Reader) ([]byte, error) {
	value, err := io.ReadAll(io.LimitReader(from, sessionsecret.MaxValueBytes+3))
	if err != nil {
		return nil, fmt.Errorf("reading the value: %w", err)
	}
	return value, nil
}

// newSecret returns the Secret of a Session with one secret.
func newSecret(of *v1alpha1.Session, name string, value []byte, hosts []string) (*corev1.Secret, error) {
	entry, err := json.Marshal(sessionsecret.Entry{ID: strings.ToLower(rand.Text()), Hosts: strings.Join(hosts, ",")})
	if err != nil {
		return nil, fmt.Errorf("encoding the secret: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: sessionsecret.Name(of.UID),
			Labels: map[string]string{v1alpha1.LabelSessionSecrets: string(of.UID)},
			Annotations: map[string]string{
				v1alpha1.AnnotationSecretsSession: of.Name, v1alpha1.AnnotationAllowedHosts: "",
				v1alpha1.AnnotationSecretPrefix + name: string(entry),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Session", Name: of.Name, UID: of.UID,
			}},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{name: value},
	}, nil
}

// writeSecret creates the Secret of a Session, or adds to it what it has. It does not read it: users need create and
// patch only.
func writeSecret(ctx context.Context, c *access.Cluster, secret *corev1.Secret) error {
	err := c.Create(ctx, secret.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		patch, encoding := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"labels": secret.Labels, "annotations": secret.Annotations, "ownerReferences": secret.OwnerReferences,
			},
			"data": secret.Data,
		})
		if encoding != nil {
			return fmt.Errorf("encoding the secret: %w", encoding)
		}
		err = c.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", secret.Name, err)
	}
	return nil
}

func (p *program) secretList() *cobra.Command {
	var session string
	return p.ofSession(&cobra.Command{
		Use:   "ls --session SESSION",
		Short: "List the secrets of a Session",
		Long: `List the secrets of a Session with the hosts that they may be sent to. Values are not read. It takes get on the
Secret.`,
		Example:           `  kubectl capstan secret ls --session demo`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.listSecrets(cmd.Context(), session) },
	}, &session)
}

func (p *program) listSecrets(ctx context.Context, session string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	of, err := findSession(ctx, c, session)
	if err != nil {
		return err
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = c.Get(ctx, c.Key(sessionsecret.Name(of.UID)), found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Secret %s: %w", sessionsecret.Name(of.UID), err)
	}
	rows := [][]string{{"NAME", "HOSTS"}}
	for _, key := range slices.Sorted(maps.Keys(found.Annotations)) {
		name, is := strings.CutPrefix(key, v1alpha1.AnnotationSecretPrefix)
		if !is || !sessionsecret.ValidName(name) {
			continue
		}
		var entry sessionsecret.Entry
		hosts := "invalid: set it again"
		if json.Unmarshal([]byte(found.Annotations[key]), &entry) == nil {
			if hosts = entry.Hosts; hosts == "" {
				hosts = "none"
			}
		}
		rows = append(rows, []string{name, hosts})
	}
	if len(rows) == 1 {
		return p.out.Lines(text.Format(text.Plain, "Session %s has no secrets", of.Name))
	}
	return p.out.Lines(text.Table(rows)...)
}

func (p *program) secretRemove() *cobra.Command {
	var session string
	return p.ofSession(&cobra.Command{
		Use:   "rm NAME --session SESSION",
		Short: "Remove a secret of a Session",
		Long: `Remove a secret of a Session with its value. It takes patch on the Secret, and update on sessions/secrets.
Revoke the value where it is valid as well.`,
		Example:           `  kubectl capstan secret rm stripe --session demo`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.removeSecret(cmd.Context(), arguments[0], session)
		},
	}, &session)
}

func (p *program) removeSecret(ctx context.Context, name, session string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	of, err := findSession(ctx, c, session)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: sessionsecret.Name(of.UID)}}
	pointer := strings.NewReplacer("~", "~0", "/", "~1")
	// It fails where there is no such key.
	patch, err := json.Marshal([]map[string]string{
		{"op": "remove", "path": "/data/" + pointer.Replace(name)},
		{"op": "remove", "path": "/metadata/annotations/" + pointer.Replace(v1alpha1.AnnotationSecretPrefix+name)},
	})
	if err != nil {
		return fmt.Errorf("encoding the change: %w", err)
	}
	switch err := c.Patch(ctx, secret, client.RawPatch(types.JSONPatchType, patch)); {
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		return fmt.Errorf("secret %q of Session %s does not exist: %w", name, of.Name, err)
	case err != nil:
		return fmt.Errorf("changing Secret %s: %w", secret.Name, err)
	}
	return p.out.Lines(text.Format(text.Plain, "secret %s of Session %s is removed", name, of.Name))
}
