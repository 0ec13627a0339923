package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// config is the launcher's configuration in the Job.
type config struct {
	// argumentsFile, markFile and messageFile are paths.
	argumentsFile, markFile, messageFile string
	// timeout of the tool, from the start of the launcher.
	timeout time.Duration
	// scalars are the names of the arguments that get a variable.
	scalars []string
	// filesFile has the files that the tool gets, which are put into filesRoot; both are empty for a tool that shares no
	// files. outputs are the paths of those that it returns.
	filesFile, filesRoot string
	outputs              []string
	// keepOutput reports whether an output that is longer than a result is returned whole.
	keepOutput bool
}

// readConfig reads the launcher's variables from an environment. The messageFile is set even when there is an error.
func readConfig(environment []string) (config, error) {
	values := map[string]string{}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	c := config{
		argumentsFile: values[result.EnvArgumentsFile],
		markFile:      values[result.EnvStartMark],
		messageFile:   values[result.EnvMessageFile],
		filesFile:     values[result.EnvFilesFile],
		filesRoot:     values[result.EnvFilesRoot],
		keepOutput:    values[result.EnvKeepOutput] != "",
	}
	required := []string{result.EnvArgumentsFile, result.EnvStartMark, result.EnvMessageFile}
	for _, name := range required {
		if values[name] == "" {
			return c, fmt.Errorf("the variable %s is not set", name)
		}
	}
	var err error
	if c.timeout, err = time.ParseDuration(values[result.EnvTimeout]); err != nil || c.timeout <= 0 {
		return c, fmt.Errorf("invalid variable %s: %q is not a positive duration", result.EnvTimeout,
			values[result.EnvTimeout])
	}
	for variable, into := range map[string]*[]string{result.EnvScalars: &c.scalars, result.EnvOutputs: &c.outputs} {
		if list := values[variable]; list != "" {
			if err := json.Unmarshal([]byte(list), into); err != nil {
				return c, fmt.Errorf("invalid variable %s: not a list of names: %w", variable, err)
			}
		}
	}
	return c, nil
}
