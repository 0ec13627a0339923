package validation_test

import (
	"fmt"
	"strings"
)

// initialFile is the patch of a layer with one initial file.
func initialFile(fields string) string {
	return `spec: {initialFiles: [{` + fields + `}]}`
}

// initialFiles is the patch of a layer with files of so many bytes.
func initialFiles(sizes ...int) string {
	var all []string
	for i, size := range sizes {
		content := strings.Repeat("é", size/2) + strings.Repeat("x", size%2)
		all = append(all, fmt.Sprintf("{path: /f%d, content: %q}", i, content))
	}
	return `spec: {initialFiles: [` + strings.Join(all, ", ") + `]}`
}

// longPaths is the patch of a layer with so many files whose paths have 256 bytes each.
func longPaths(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("{path: /%03d%s}", i, strings.Repeat("é", 126)))
	}
	return `spec: {initialFiles: [` + strings.Join(all, ", ") + `]}`
}

// fileCases are the rules of initialFiles, which Harness, Agent and Session share.
var fileCases = []ruleCase{
	{
		rule:     "spec.initialFiles rule initialFiles must have at most 262144 bytes of content together.",
		accepted: initialFiles(262144), rejected: initialFiles(262144, 1),
	},
	{
		rule:     "spec.initialFiles rule initialFiles must have at most 262144 bytes of content together.",
		accepted: initialFiles(131072, 131071, 1), rejected: initialFiles(131072, 131072, 1),
	},
	{
		rule:     "spec.initialFiles rule initialFiles must have at most 4096 bytes of paths together.",
		accepted: longPaths(16), rejected: longPaths(17),
	},
	{
		rule: "spec.initialFiles[] required path", accepted: initialFile(`path: a`), rejected: initialFile(`content: a`),
		message: `spec.initialFiles[0].path: Required value`,
	},
	{
		rule: "spec.initialFiles[].path pattern", accepted: initialFile(`path: "/Grüße/日本 語.txt"`),
		rejected: initialFile(`path: "/a\u200bb"`), message: `spec.initialFiles[0].path in body should match`,
	},
	{
		rule: "spec.initialFiles[].path pattern", accepted: initialFile(`path: "/a b"`),
		rejected: initialFile(`path: "/a\nb"`), message: `spec.initialFiles[0].path in body should match`,
	},
	{
		rule:     "spec.initialFiles[].path rule path must be that of a file, not of the root directory.",
		accepted: initialFile(`path: /workspace/a`), rejected: initialFile(`path: /workspace/`),
	},
	{
		rule:     "spec.initialFiles[].path rule path must be that of a file, not of the root directory.",
		accepted: initialFile(`path: workspaces`), rejected: initialFile(`path: /`),
	},
	{
		rule:     "spec.initialFiles[].path rule path must not have . or .. as a name.",
		accepted: initialFile(`path: "/a..b/..."`), rejected: initialFile(`path: ../a`),
	},
	{
		rule:     "spec.initialFiles[].path rule path must not have . or .. as a name.",
		accepted: initialFile(`path: /.hidden`), rejected: initialFile(`path: /a/.`),
	},
	{
		rule: "spec.initialFiles[].encoding enum", accepted: initialFile(`path: a, content: YQ==, encoding: Base64`),
		rejected: initialFile(`path: a, encoding: base64`),
		message:  `spec.initialFiles[0].encoding: Unsupported value: "base64": supported values: "Text", "Base64"`,
	},
	{
		rule: "spec.initialFiles[].access enum", accepted: initialFile(`path: a, access: ReadOnly`),
		rejected: initialFile(`path: a, access: Execute`),
		message:  `spec.initialFiles[0].access: Unsupported value: "Execute": supported values: "ReadWrite", "ReadOnly"`,
	},
}
