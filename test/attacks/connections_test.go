package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// vault is a cluster's Secrets, and a token endpoint of the attacker.
type vault struct {
	*network
	endpoint *site.Site
	// received counts the requests to it that have a token of a user.
	received atomic.Int64
	secrets  map[string]*corev1.Secret
}

func newVault(t *testing.T) *vault {
	v := &vault{network: newNetwork(t), secrets: map[string]*corev1.Secret{}}
	v.endpoint = site.New(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() == nil && strings.Contains(r.PostForm.Encode(), tokenSecret) {
			v.received.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"`+strings.ReplaceAll(success, " ", "-")+`","expires_in":60,"token_type":"Bearer"}`)
	})
	v.add(builder.Connection(bystander, "github", "ann", map[string]string{connection.KeyToken: tokenSecret}, "a.example"))
	return v
}

func (v *vault) add(secrets ...*corev1.Secret) {
	for _, s := range secrets {
		v.secrets[s.Namespace+"/"+s.Name] = s
	}
}

// token returns the token that a call of a Turn would be sent with.
func (v *vault) token(ctx context.Context, of connection.Of) string {
	source := token.NewSource(func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
		if s := v.secrets[namespace+"/"+name]; s != nil {
			return s.DeepCopy(), nil
		}
		return nil, site.NotFound(name)
	}, v.endpoint.Egress(), time.Now)
	found, err := source.Token(ctx, of)
	if err == nil && strings.Contains(found.Value, strings.ReplaceAll(success, " ", "-")) {
		return success
	}
	return shown(found.Value, err)
}

// userConnections are attempts to act by the connection of another user, and to receive its tokens.
func userConnections(t *testing.T) subject {
	v := newVault(t)
	of := func(name string, of connection.Of) attempt {
		return attempt{name: name, run: func(ctx context.Context) string { return v.token(ctx, of) }}
	}
	return subject{
		name: "Connections of users",
		classes: []class{
			{name: "the connection of another user", refused: true, attempts: []attempt{
				of("by another name", connection.Of{Namespace: bystander, Provider: "github", User: "mallory"}),
				of("by no name", connection.Of{Namespace: bystander, Provider: "github"}),
				of("by a name with a space", connection.Of{Namespace: bystander, Provider: "github", User: "ann "}),
				of("from another namespace", connection.Of{Namespace: attacker, Provider: "github", User: "ann"}),
				of("by a provider with a path", connection.Of{
					Namespace: attacker, Provider: "../" + bystander + "/github", User: "ann",
				}),
			}},
			v.posing(),
			v.clients(),
			v.endpoints(),
		},
		other: func(ctx context.Context) error {
			seen := v.token(ctx, connection.Of{Namespace: bystander, Provider: "github", User: "ann"})
			if seen != tokenSecret {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			v.untouched(t)
			if n := v.received.Load(); n != 0 {
				t.Errorf("the attacker has received %d tokens", n)
			}
		},
	}
}

// posing are Secrets of the attacker that pose as the connection of another user, for whose Turns the attacker's
// account would be used.
func (v *vault) posing() class {
	all := class{name: "a Secret that poses as the connection of another user", refused: true}
	for i, a := range []struct {
		name   string
		change func(*corev1.Secret)
	}{
		{"with another owner", func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationConnectionOwner] = "mallory" }},
		{"without an owner", func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationConnectionOwner) }},
		{"without the label, which a policy asks about", func(s *corev1.Secret) { s.Labels = nil }},
		{"for another provider", func(s *corev1.Secret) { s.Labels[v1alpha1.LabelConnection] = "gitlab" }},
		{"for any host", func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationAllowedHosts] = " " }},
	} {
		user := fmt.Sprintf("posed-%d", i)
		s := builder.Connection(attacker, "github", user, map[string]string{connection.KeyToken: success}, "a.example")
		a.change(s)
		v.add(s)
		all.attempts = append(all.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
			return v.token(ctx, connection.Of{Namespace: attacker, Provider: "github", User: user})
		}})
	}
	return all
}

// clients are OAuth clients of the attacker, by which the connections of users are refreshed.
func (v *vault) clients() class {
	all := class{name: "an OAuth client that is written by another user", refused: true}
	own := strings.TrimPrefix(v.endpoint.URL, "https://")
	for i, a := range []struct {
		name, url, hosts string
		change           func(client, connection *corev1.Secret)
	}{
		{"with another host", v.endpoint.URL, "login.example", nil},
		{"with another port", v.endpoint.URL, strings.Split(own, ":")[0], nil},
		{"with the host as a user", "https://login.example@" + own, "login.example", nil},
		{"for a connection that names no hosts", v.endpoint.URL, "", nil},
		{"of another provider", v.endpoint.URL, own, func(client, _ *corev1.Secret) {
			client.Labels[v1alpha1.LabelOAuthClient] = "gitlab"
		}},
	} {
		user, name := fmt.Sprintf("refreshed-%d", i), fmt.Sprintf("app-%d", i)
		client := builder.Connection(attacker, "github", user, map[string]string{
			connection.KeyTokenURL: a.url, connection.KeyClientID: "id", connection.KeyClientSecret: "c",
		})
		client.Name, client.Annotations = name, nil
		client.Labels = map[string]string{v1alpha1.LabelOAuthClient: "github"}
		s := builder.Connection(
			attacker, "github", user, map[string]string{connection.KeyRefreshToken: tokenSecret}, "a.example",
		)
		s.Annotations[v1alpha1.AnnotationOAuthClient], s.Annotations[v1alpha1.AnnotationTokenHosts] = name, a.hosts
		if a.change != nil {
			a.change(client, s)
		}
		v.add(client, s)
		all.attempts = append(all.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
			return v.token(ctx, connection.Of{Namespace: attacker, Provider: "github", User: user})
		}})
	}
	return all
}

// endpoints are token endpoints of a user's own, who may write neither Tools nor Models. The client of the manager may
// reach loopback addresses: for Tools.
func (v *vault) endpoints() class {
	all := class{name: "a token endpoint of one's own", refused: true}
	for i, a := range []struct{ name, url string }{
		{"at an address that Tools may reach", v.endpoint.URL},
		{"at the internal server", "https://INSIDE/token"},
		{"at the metadata of clouds", "https://169.254.169.254/token"},
		{"at the API server", "https://kubernetes.default.svc/token"},
		{"without encryption", "http://a.example/token"},
	} {
		user := fmt.Sprintf("own-%d", i)
		v.add(builder.Connection(attacker, "github", user, map[string]string{
			connection.KeyTokenURL: v.ports(a.url), connection.KeyClientID: "id", connection.KeyClientSecret: "c",
		}, "a.example"))
		all.attempts = append(all.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
			return v.token(ctx, connection.Of{Namespace: attacker, Provider: "github", User: user})
		}})
	}
	return all
}
