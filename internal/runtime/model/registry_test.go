package model

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

type silent struct{}

func (silent) Generate(context.Context, Request) (*Response, error) {
	return &Response{}, nil
}

func someModel(provider v1alpha1.ModelProvider) *v1alpha1.Model {
	return &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Spec: v1alpha1.ModelSpec{Provider: provider}}
}

// Rules: MODEL-01, MODEL-03.
func TestRegistryGivesTheDriverOfTheProvider(t *testing.T) {
	registry := Registry{
		"One": func(*v1alpha1.Model, Access) (Driver, error) { return nil, errors.New("the wrong factory was called") },
		"Two": func(*v1alpha1.Model, Access) (Driver, error) { return silent{}, nil },
	}
	driver, err := registry.Driver(someModel("Two"), Access{})
	if err != nil || driver != (silent{}) {
		t.Fatalf("Driver = %v, %v", driver, err)
	}
}

// Rules: MODEL-03.
func TestTheCodeOfAModelWithoutADriverIsModelUnavailable(t *testing.T) {
	cause := errors.New("the address is not valid")
	registry := Registry{"Broken": func(*v1alpha1.Model, Access) (Driver, error) { return nil, cause }}
	for provider, message := range map[v1alpha1.ModelProvider]string{"Unheard": `"Unheard"`, "Broken": cause.Error()} {
		driver, err := registry.Driver(someModel(provider), Access{})
		var unavailable *UnavailableError
		if driver != nil || !errors.As(err, &unavailable) {
			t.Fatalf("Driver of provider %s = %v, %v", provider, driver, err)
		}
		if !strings.Contains(unavailable.Cause.Error(), message) {
			t.Errorf("cause %q does not contain %s", unavailable.Cause, message)
		}
		if code := CodeOf(err); code != v1alpha1.ErrorCodeModelUnavailable || !strings.Contains(err.Error(), `"some"`) {
			t.Errorf("the code of %q is %s", err, code)
		}
	}
	if err := registry.Check(someModel("Broken")); !errors.Is(err, cause) {
		t.Errorf("the cause is not in %v", err)
	}
}

func TestNameIsThatOfTheObjectUnlessGiven(t *testing.T) {
	m := someModel("One")
	if got := Name(m); got != "some" {
		t.Errorf("Name = %q, want some", got)
	}
	m.Spec.Model = "vendor/large-1"
	if got := Name(m); got != "vendor/large-1" {
		t.Errorf("Name = %q, want vendor/large-1", got)
	}
}

func TestAFactoryGetsTheAccess(t *testing.T) {
	var got Access
	registry := Registry{
		"One": func(_ *v1alpha1.Model, access Access) (Driver, error) { got = access; return silent{}, nil },
	}
	client := &http.Client{}
	if _, err := registry.Driver(
		someModel("One"),
		Access{HTTP: client, Key: "k"},
	); err != nil || got.HTTP != client ||
		got.Key != "k" {
		t.Errorf("the factory got %+v, %v", got, err)
	}
	if err := registry.Check(
		someModel("One"),
	); err != nil || got.HTTP == nil || got.HTTP == client || got.Key == "" ||
		got.Key == "k" {
		t.Errorf("to check, the factory got %+v, %v", got, err)
	}
	if err := registry.Check(someModel("Two")); err == nil {
		t.Error("a Model of an unknown provider is fine")
	}
}

func TestAnEndpointIsTheBaseURLOrTheProvidersOwn(t *testing.T) {
	m := someModel(v1alpha1.ModelProviderAnthropic)
	if got := Endpoint(m); got != "https://api.anthropic.com" {
		t.Errorf("Endpoint = %q", got)
	}
	m.Spec.BaseURL = "https://proxy.example/anthropic"
	if got := Endpoint(m); got != m.Spec.BaseURL {
		t.Errorf("Endpoint = %q", got)
	}
	if got := Endpoint(someModel(v1alpha1.ModelProviderSimulated)); got != "" {
		t.Errorf("Endpoint = %q", got)
	}
}

func TestAMissingKeyIsAMisconfiguration(t *testing.T) {
	err := &KeyError{Model: "claude", Problem: `Secret "anthropic" does not exist`}
	if code := CodeOf(
		err,
	); code != v1alpha1.ErrorCodeProviderMisconfigured ||
		!strings.Contains(err.Error(), err.Problem) {
		t.Errorf("the code of %q is %s", err, code)
	}
}
