package fairshare

import (
	"fmt"
	"testing"
)

func TestAValueReplacesThatOfItsKey(t *testing.T) {
	c := NewCache[string, int](100)
	c.Keep("ns", "a", 1, 60)
	c.Keep("ns", "a", 2, 80)
	if value, kept := c.Get("ns", "a"); !kept || value != 2 {
		t.Fatalf("the value is %d, %t", value, kept)
	}
	if _, kept := c.Get("other", "a"); kept {
		t.Fatal("a namespace has the value of another")
	}
	if used, _ := c.Used(); used != 80 {
		t.Fatalf("%d bytes are used", used)
	}
	// A value that is too large is not kept, and neither is the one that it replaces.
	c.Keep("ns", "a", 3, 101)
	if value, kept := c.Get("ns", "a"); kept {
		t.Fatalf("the value is %d", value)
	}
	c.Keep("ns", "a", 4, 10)
	c.Forget("ns", "a")
	c.Forget("ns", "a")
	c.Forget("never", "a")
	if used, namespaces := c.Used(); used != 0 || namespaces != 0 {
		t.Fatalf("%d bytes of %d namespaces are used", used, namespaces)
	}
}

func TestTheNamespaceWithTheMostBytesMakesRoom(t *testing.T) {
	c := NewCache[int, int](1000)
	c.Keep("quiet", 1, 1, 100)
	for i := range 1000 {
		c.Keep("loud", i, i, 10+int64(i%7))
	}
	if _, kept := c.Get("quiet", 1); !kept {
		t.Fatal("a loud namespace drops the value of another")
	}
	if used, _ := c.Used(); used > 1000 || used < 900 {
		t.Fatalf("%d bytes are used", used)
	}
	for i := range 100 {
		c.Keep(fmt.Sprint(i), 1, 1, 50)
	}
	if used, namespaces := c.Used(); used > 1000 || namespaces > 20 {
		t.Fatalf("%d bytes of %d namespaces are used", used, namespaces)
	}
}
