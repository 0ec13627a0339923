// Package upgrade_test lets Turns that began under an earlier build end under this one. What the earlier build left
// behind, at each moment that matters, was recorded with it and is put into a new cluster.
package upgrade_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/test/internal/suite"
)

func TestUpgrade(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Upgrade")
}

var config *rest.Config

var _ = BeforeSuite(func() {
	suite.Configure(suite.Logger(), 30*time.Second, suite.Polling)
	config = suite.Start().Config
})
