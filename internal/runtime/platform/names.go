package platform

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
)

// Capability is the name of the capability.
const Capability = "platform"

// Command is the argument of the launcher that runs this program.
const Command = "platform"

// The names of the tools.
const (
	ListTool    = "platform_list"
	GetTool     = "platform_get"
	CreateTool  = "platform_create"
	UpdateTool  = "platform_update"
	ArchiveTool = "platform_archive"
	SendTool    = "send_message"
	RecentTool  = "recent_messages"
	WaitTool    = "wait_for_idle"
)

const (
	// DefaultWait is how long WaitTool waits if the model does not say.
	DefaultWait = 2 * time.Minute
	// MaxWait is the longest that WaitTool waits.
	MaxWait = 10 * time.Minute
	// WaitTimeout is that of the Job of WaitTool, which ends before it.
	WaitTimeout = MaxWait + time.Minute
	// Timeout is that of the Jobs of all other tools.
	Timeout = 2 * time.Minute
	// limit is how long a call may take that does not wait. It ends before its Job does.
	limit = 90 * time.Second
	// MaxDepth is how many messages of agents may follow from one another: an agent whose Turn was started by such a
	// message sends messages that count one more.
	MaxDepth = 8
)

// Marks on the objects that the program writes.
const (
	// AnnotationCall is on every created object: a hash of the call. A call that runs again finds its object by it.
	AnnotationCall = "capstan.dev/platform-call"
	// AnnotationSession is on every created object: the Session of the agent that has created it.
	AnnotationSession = "capstan.dev/platform-session"
	// AnnotationDepth is on the Turns of messages: how many messages of agents they follow from.
	AnnotationDepth = "capstan.dev/platform-depth"
	// LabelArchived is on archived Sessions, with the value "true".
	LabelArchived = "capstan.dev/archived"
)

// kind is a kind of object that the tools manage.
type kind struct {
	// name of the kind, and resource in the path of the API.
	name, resource string
}

var kinds = map[string]kind{
	"harness": {"Harness", "harnesses"},
	"agent":   {"Agent", "agents"},
	"session": {"Session", "sessions"},
}

var (
	turns    = kind{"Turn", "turns"}
	sessions = kinds["session"]
)

// objectName matches the names of objects: a name from the model becomes part of a path.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// validName reports whether a name can be that of an object, and cannot lead elsewhere in a path.
func validName(name string) bool {
	return objectName.MatchString(name) && !strings.Contains(name, "..")
}

// hashOf identifies the call, whose idempotency key is the same in every run of it.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte("capstan platform\x00" + key))
	return hex.EncodeToString(sum[:])
}

// nameOf is the name of the object that a call creates. It has no text from a model.
func nameOf(prefix, call string) string {
	return prefix + "-" + call[:20]
}
