package inprocess

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/apivalidation"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/readiness"
)

// objects are the objects of one namespace. Returned objects never change: another version replaces them.
type objects struct {
	namespace string
	now       func() time.Time
	models    model.Registry
	schemas   readiness.SchemaChecker
	// functionProviders are the providers that functions implement.
	functionProviders map[v1alpha1.ModelProvider]bool
	// checkKey returns why a Model has no API key.
	checkKey func(context.Context, *v1alpha1.Model) error
	// budgets are the Budgets with their balance, and ledgers keeps it.
	budgets *keeper.Memory
	ledgers *keeper.Keeper
	// servers has the tools of MCPServers.
	servers servers

	mu         sync.RWMutex
	byKey      map[key]apivalidation.Object
	order      []key
	secrets    map[string]*corev1.Secret
	configMaps map[string]*corev1.ConfigMap
	turns      []*v1alpha1.Turn
}

// key names an object.
type key struct {
	kind reflect.Type
	name string
}

func keyOf(o apivalidation.Object) key {
	return key{reflect.TypeOf(o), o.GetName()}
}

// applyAny applies an object or a Secret.
func (s *objects) applyAny(given Object) error {
	switch o := given.(type) {
	case *corev1.Secret:
		return s.addSecret(o)
	case *corev1.ConfigMap:
		return s.addConfigMap(o)
	case apivalidation.Object:
		return s.apply(o)
	default:
		return fmt.Errorf("%T is not an object", given)
	}
}

// apply adds or replaces an object, as `kubectl apply` would.
func (s *objects) apply(given apivalidation.Object) error {
	o, ok := given.DeepCopyObject().(apivalidation.Object)
	if !ok || reflect.ValueOf(given).IsNil() {
		return fmt.Errorf("%T is not an object", given)
	}
	if _, ok := o.(*v1alpha1.ToolResult); ok {
		return fmt.Errorf("ToolResult %q: use Answer, Refuse and Decide for results and decisions", o.GetName())
	}
	if _, ok := o.(*v1alpha1.Schedule); ok {
		return fmt.Errorf("schedule %q: this runtime has no Schedules; create a Turn when it is due", o.GetName())
	}
	if err := apivalidation.Admit(o); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[keyOf(o)]
	o.SetNamespace(s.namespace)
	s.identify(o, known)
	if turn, ok := o.(*v1alpha1.Turn); ok {
		s.turns = append(s.turns, turn)
		return nil
	}
	if session, ok := o.(*v1alpha1.Session); ok && known != nil {
		if before, ok := known.(*v1alpha1.Session); ok && before.Spec.HarnessRef != session.Spec.HarnessRef {
			return fmt.Errorf("Session %q: harnessRef cannot be changed: a conversation keeps its Harness", session.Name)
		}
	}
	s.observe(o)
	if b, ok := o.(*v1alpha1.Budget); ok {
		s.ledgers.Observe(s.budgets.Apply(b))
		o = b
	}
	if known == nil {
		s.order = append(s.order, keyOf(o))
	}
	s.byKey[keyOf(o)] = o
	return nil
}

// identify sets the fields of an object that an API server would set: a UID, its age, and a generation that counts the
// versions of its spec.
func (s *objects) identify(o, known apivalidation.Object) {
	if known != nil {
		o.SetUID(known.GetUID())
		o.SetCreationTimestamp(known.GetCreationTimestamp())
		o.SetGeneration(known.GetGeneration())
		if !reflect.DeepEqual(specOf(o), specOf(known)) {
			o.SetGeneration(known.GetGeneration() + 1)
		}
		return
	}
	o.SetGeneration(1)
	if stamp := o.GetCreationTimestamp(); stamp.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	}
	if o.GetUID() == "" {
		o.SetUID(s.uidOf(o))
	}
}

func specOf(o apivalidation.Object) any {
	return reflect.ValueOf(o).Elem().FieldByName("Spec").Interface()
}

// uidOf is the UID of a new object. The UID of a Session is derived from its name, so that another process finds its
// journal, and that of a Tool or an MCPServer, so that calls which another process has planned start here; each Turn
// gets a new one.
func (s *objects) uidOf(o apivalidation.Object) types.UID {
	switch o.(type) {
	case *v1alpha1.Session:
		return s.uidFor("sessions", o)
	case *v1alpha1.Tool:
		return s.uidFor("tools", o)
	case *v1alpha1.MCPServer:
		return s.uidFor("mcpservers", o)
	default:
		return types.UID(uuid.NewString())
	}
}

// uidFor is a UID that is derived from the name of an object.
func (s *objects) uidFor(kind string, o apivalidation.Object) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("capstan.dev/"+kind+"/"+s.namespace+"/"+o.GetName())).String())
}

// observe sets the Ready condition of Models and Tools, as their controllers do.
func (s *objects) observe(o apivalidation.Object) {
	now := metav1.NewTime(s.now())
	switch o := o.(type) {
	case *v1alpha1.Model:
		reason, message := model.Readiness(s.models.Check(o))
		condition.SetReady(&o.Status.Conditions, o.Generation, now, reason, message)
	case *v1alpha1.Tool:
		reason, message := readiness.Of(&o.Spec, s.schemas)
		condition.SetReady(&o.Status.Conditions, o.Generation, now, reason, message)
	}
}

// get returns the object of a name; nil for none.
func get[T apivalidation.Object](s *objects, name string) T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, _ := s.byKey[key{reflect.TypeFor[T](), name}].(T)
	return found
}

// all returns the objects of a kind, in the order of their addition.
func all[T apivalidation.Object](s *objects) []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []T
	for _, k := range s.order {
		if o, ok := s.byKey[k].(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// Harness implements config.Source.
func (s *objects) Harness(_ context.Context, name string) (*v1alpha1.Harness, error) {
	return get[*v1alpha1.Harness](s, name), nil
}

// Agent implements config.Source.
func (s *objects) Agent(_ context.Context, name string) (*v1alpha1.Agent, error) {
	return get[*v1alpha1.Agent](s, name), nil
}

// Tool implements config.Source.
func (s *objects) Tool(_ context.Context, name string) (*v1alpha1.Tool, error) {
	return get[*v1alpha1.Tool](s, name), nil
}

// Capability implements config.Source.
func (s *objects) Capability(_ context.Context, name string) (*v1alpha1.Capability, error) {
	return get[*v1alpha1.Capability](s, name), nil
}

// Model implements config.Source.
func (s *objects) Model(ctx context.Context, name string) (*v1alpha1.Model, error) {
	models, err := s.Models(ctx)
	if err != nil {
		return nil, err
	}
	for i := range models {
		if models[i].Name == name {
			return &models[i], nil
		}
	}
	return nil, nil
}

// Models implements config.Source.
func (s *objects) Models(ctx context.Context) ([]v1alpha1.Model, error) {
	found := all[*v1alpha1.Model](s)
	models := make([]v1alpha1.Model, len(found))
	for i, m := range found {
		models[i] = *m
		if s.functionProviders[m.Spec.Provider] {
			models[i].Spec.SecretKeyRef = nil
		}
		if err := s.observeKey(ctx, &models[i]); err != nil {
			return nil, err
		}
	}
	return models, nil
}

// observeKey sets the Ready condition of a Model that needs an API key, which changes with its Secret.
func (s *objects) observeKey(ctx context.Context, m *v1alpha1.Model) error {
	if !model.Lent(m) || !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
		return nil
	}
	missing := s.checkKey(ctx, m)
	if missing == nil {
		return nil
	}
	var key *model.KeyError
	if !errors.As(missing, &key) {
		return missing
	}
	m.Status.Conditions = slices.Clone(m.Status.Conditions)
	reason, message := model.Readiness(key)
	condition.SetReady(&m.Status.Conditions, m.Generation, metav1.NewTime(s.now()), reason, message)
	return nil
}

// Session implements loop.Objects.
func (s *objects) Session(name string) *v1alpha1.Session {
	return get[*v1alpha1.Session](s, name)
}

// AddSession implements loop.Objects.
func (s *objects) AddSession(session *v1alpha1.Session) (*v1alpha1.Session, error) {
	if known := s.Session(session.Name); known != nil {
		return known, nil
	}
	if err := s.apply(session); err != nil {
		return nil, fmt.Errorf("adding the Session of a sub-agent: %w", err)
	}
	return s.Session(session.Name), nil
}

// secret implements credential.Reader.
func (s *objects) secret(name string) (*corev1.Secret, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if secret := s.secrets[name]; secret != nil {
		return secret.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// addSecret adds or replaces a Secret.
func (s *objects) addSecret(given *corev1.Secret) error {
	if given.Name == "" {
		return errors.New("the Secret has no name")
	}
	secret := given.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for name, value := range secret.StringData {
		secret.Data[name] = []byte(value)
	}
	secret.StringData = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[secret.Name] = secret
	return nil
}

// configMap returns a ConfigMap.
func (s *objects) configMap(name string) (*corev1.ConfigMap, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found := s.configMaps[name]; found != nil {
		return found.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

// addConfigMap adds or replaces a ConfigMap.
func (s *objects) addConfigMap(given *corev1.ConfigMap) error {
	if given.Name == "" {
		return errors.New("the ConfigMap has no name")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configMaps[given.Name] = given.DeepCopy()
	return nil
}

// turn is the Turn of a name from the manifests; nil for none.
func (s *objects) turn(name string) *v1alpha1.Turn {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, turn := range s.turns {
		if turn.Name == name {
			return turn.DeepCopy()
		}
	}
	return nil
}
