package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// sharing is a trial of a tool that gets files and returns those at the paths of outputs.
func sharing(t *testing.T, outputs string, inputs ...result.File) *trial {
	t.Helper()
	tr := newTrial(t)
	if err := os.Mkdir(tr.path("workspace"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tr.path("workspace"), 0o777); err != nil {
		t.Fatal(err)
	}
	text, err := result.EncodeInputs(result.Files{Revision: 7, Files: inputs})
	if err != nil {
		t.Fatal(err)
	}
	tr.write("files", text)
	tr.environment = append(tr.environment, result.EnvFilesFile+"="+tr.path("files"),
		result.EnvFilesRoot+"="+tr.path("workspace"), result.EnvOutputs+"="+outputs)
	return tr
}

// shell runs a script in the directory of the files, and returns what is read of its report.
func (tr *trial) shell(script string) (string, *result.Files) {
	tr.t.Helper()
	e := tr.runCommand("/bin/sh", "-c", "cd workspace && "+script)
	tr.want(e, result.Exited, 0, true)
	if !e.message.HasFiles {
		return tr.result(e), nil
	}
	text, files, err := e.message.ReadLog(strings.NewReader(e.log))
	if err != nil {
		tr.t.Fatalf("reading the log: %v", err)
	}
	return text, files
}

// listed are files in one line: those that are returned with their content, and those that are not with the problem.
func listed(files *result.Files) string {
	var all []string
	for _, file := range files.Files {
		switch {
		case file.Problem != "":
			all = append(all, file.Path+"!"+string(file.Problem))
		case file.Given:
			all = append(all, file.Path+"*"+string(file.Content))
		default:
			all = append(all, file.Path+"="+string(file.Content))
		}
	}
	return strings.Join(all, " ")
}

func TestAToolGetsFilesAndReturnsWhatItHasChanged(t *testing.T) {
	tr := sharing(t, `["/src","/report.txt","/none"]`,
		result.File{Path: "/src/deep/a", Content: []byte("a")}, result.File{Path: "/src/b", Content: []byte("b")})
	text, files := tr.shell(`cat src/deep/a src/b; printf c > src/b; mkdir new; printf n > new/n;
		printf d > src/deep/d; printf r > report.txt; printf x > other`)
	if text != "ab" {
		t.Errorf("the tool read %q", text)
	}
	if got := listed(files); got != "/report.txt=r /src/b*c /src/deep/d=d" || files.Revision != 7 || files.More != 0 {
		t.Errorf("it returns %s, %+v", got, files)
	}
}

func TestTheWholeDirectoryIsReturned(t *testing.T) {
	_, files := sharing(t, `["/"]`).shell("printf a > a; mkdir -p b/c; printf d > b/c/d")
	if got := listed(files); got != "/a=a /b/c/d=d" {
		t.Errorf("it returns %s", got)
	}
}

// A tool that fails returns no files, and neither does one that shares none.
func TestWithoutSuccessNoFilesAreReturned(t *testing.T) {
	tr := sharing(t, `["/"]`)
	e := tr.runCommand("/bin/sh", "-c", "printf a > workspace/a; exit 3")
	tr.want(e, result.Exited, 3, true)
	if e.message.HasFiles {
		t.Error("it returns files")
	}
	if e := newTrial(t).run("print", "x"); e.message.HasFiles {
		t.Error("a tool without files returns files")
	}
}

// Nothing outside of the directory is read, whatever the tool leaves in it, and nothing blocks.
func TestLinksAndDevicesAreNotReturned(t *testing.T) {
	tr := sharing(t, `["/","/away/passwd","/linked/in","/pipe"]`)
	tr.write("secret", "hidden")
	_, files := tr.shell(`ln -s /etc away; ln -s /etc/passwd link; ln -s ../secret up; mkfifo pipe; mkdir real;
		printf x > real/in; ln -s real linked; printf h > hard; ln hard hard2`)
	want := "/away!Type /hard!Type /hard2!Type /link!Type /linked!Type /pipe!Type /real/in=x /up!Type"
	if got := listed(files); got != want {
		t.Errorf("it returns %s", got)
	}
}

func TestReturnedFilesAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   func(*result.Files) bool
	}{
		"a large file": {"head -c 524289 /dev/zero > large; printf s > small", func(f *result.Files) bool {
			return listed(f) == "/large!Size /small=s"
		}},
		"a sparse file of a terabyte": {"truncate -s 1T sparse", func(f *result.Files) bool {
			return listed(f) == "/sparse!Size"
		}},
		"many bytes": {"for i in 1 2 3; do head -c 400000 /dev/zero > $i; done", func(f *result.Files) bool {
			return len(f.Files) == 3 && f.Files[1].Problem == "" && f.Files[2].Problem == result.ProblemSize
		}},
		"many files": {"for i in $(seq 200); do printf x > $i; done", func(f *result.Files) bool {
			return len(f.Files) == result.MaxFiles && f.More == 200-result.MaxFiles
		}},
		"deep directories": {
			"d=; for i in $(seq 60); do d=${d}d/; done; mkdir -p $d; printf x > ${d}x",
			func(f *result.Files) bool { return len(f.Files) == 1 && f.Files[0].Problem == result.ProblemCount },
		},
		"a file that cannot be read": {"printf x > x; chmod 0 x; printf y > y", func(f *result.Files) bool {
			return listed(f) == "/x!Read /y=y" || os.Getuid() != 0 && len(f.Files) == 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, files := sharing(t, `["/"]`).shell(test.script)
			if !test.want(files) {
				t.Errorf("it returns %.500s, and %d more", listed(files), files.More)
			}
		})
	}
}

// What a tool writes to its log does not become a file.
func TestAToolCannotForgeFiles(t *testing.T) {
	forged := result.Report{Outcome: result.Exited, Started: true, Files: &result.Files{
		Files: []result.File{{Path: "/evil", Content: []byte("x")}},
	}}
	_, frame := forged.Encode(result.NewNonce())
	tr := sharing(t, `["/good"]`)
	tr.write("frame", string(frame))
	_, files := tr.shell("cat ../frame ../frame >&2; printf g > good")
	if got := listed(files); got != "/good=g" {
		t.Errorf("it returns %s", got)
	}
}

func TestFilesThatCannotBePlacedKeepTheToolFromStarting(t *testing.T) {
	for name, input := range map[string]string{"up": "/../evil", "twice": "/a"} {
		files := []result.File{{Path: input, Content: []byte("x")}, {Path: input, Content: []byte("y")}}
		tr := sharing(t, `["/"]`, files...)
		e := tr.run("print", "ran")
		tr.want(e, result.StartError, result.ExitLauncher, false)
		if _, err := os.Stat(tr.path("evil")); err == nil {
			t.Errorf("%s: the file is outside of its directory", name)
		}
	}
}

// Rules: TOOL-19.
func TestALongOutputIsReturnedWhole(t *testing.T) {
	for _, whole := range []bool{true, false} {
		tr := newTrial(t)
		if whole {
			tr.environment = append(tr.environment, result.EnvKeepOutput+"=true")
		}
		e := tr.run("repeat", "word ", fmt.Sprint(2*result.MaxResultBytes))
		if e.message.HasFiles != whole || !e.message.Cut {
			t.Fatalf("whole %t: the report is %s", whole, e.raw)
		}
		if !whole {
			continue
		}
		_, files, err := e.message.ReadLog(strings.NewReader(e.log))
		want := bytes.Repeat([]byte("word "), 2*result.MaxResultBytes/5+1)[:2*result.MaxResultBytes]
		if err != nil || !bytes.Equal(files.Output, want) {
			t.Errorf("%d bytes come back: %v", len(files.Output), err)
		}
	}
}
