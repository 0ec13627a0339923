package main

// The files of the database are mounted as folders, so that a change reaches the running manager. Each has only the
// keys that the manager reads: the Secret of an operator for PostgreSQL also has whole connection strings, that of an
// authority its key.
const (
	storeVolumes = `{{- if .Values.store.postgres.credentialsSecret }}
- name: postgres-credentials
  secret:
    secretName: {{ .Values.store.postgres.credentialsSecret | quote }}
    items:
    - key: username
      path: username
    - key: password
      path: password
{{- end }}
{{- if .Values.store.postgres.readerCredentialsSecret }}
- name: postgres-reader-credentials
  secret:
    secretName: {{ .Values.store.postgres.readerCredentialsSecret | quote }}
    items:
    - key: username
      path: username
    - key: password
      path: password
{{- end }}
{{- if .Values.store.postgres.caSecret }}
- name: postgres-ca
  secret:
    secretName: {{ .Values.store.postgres.caSecret | quote }}
    items:
    - key: ca.crt
      path: ca.crt
{{- end }}`
	storeMounts = `{{- if .Values.store.postgres.credentialsSecret }}
- name: postgres-credentials
  mountPath: /etc/capstan/postgres
  readOnly: true
{{- end }}
{{- if .Values.store.postgres.readerCredentialsSecret }}
- name: postgres-reader-credentials
  mountPath: /etc/capstan/postgres-reader
  readOnly: true
{{- end }}
{{- if .Values.store.postgres.caSecret }}
- name: postgres-ca
  mountPath: /etc/capstan/postgres-ca
  readOnly: true
{{- end }}`
	// The type alone chooses the store of new Sessions: the database may still have that of others.
	storeArguments = `{{- if eq .Values.store.type "postgres" }}
{{- if not .Values.store.postgres.connection }}
{{- fail "store.type is postgres, and store.postgres.connection is not set" }}
{{- end }}
- --store=postgres
{{- end }}
{{- if .Values.store.postgres.connection }}
- {{ printf "--postgres-connection=%s" .Values.store.postgres.connection | quote }}
- {{ printf "--postgres-connections=%d" (int .Values.store.postgres.connections) | quote }}
- {{ printf "--postgres-statement-timeout=%s" .Values.store.postgres.statementTimeout | quote }}
- {{ printf "--postgres-retention=%s" .Values.store.postgres.retention | quote }}
{{- if .Values.store.postgres.credentialsSecret }}
- --postgres-credentials=/etc/capstan/postgres
{{- end }}
{{- if .Values.store.postgres.readerCredentialsSecret }}
- --postgres-reader-credentials=/etc/capstan/postgres-reader
- {{ printf "--postgres-reader-connections=%d" (int .Values.store.postgres.readerConnections) | quote }}
{{- end }}
{{- if .Values.store.postgres.caSecret }}
- --postgres-ca=/etc/capstan/postgres-ca/ca.crt
{{- end }}
{{- if .Values.store.postgres.plaintext }}
- --postgres-plaintext
{{- end }}
{{- end }}`
)

// storeValues are those of the store of journals and records. Their schema admits no password: what is in a value is in
// the Secret of the release and in the arguments of the manager.
func storeValues() []chartValue {
	duration := func() object { return text(object{"pattern": "^([0-9]+(ms|s|m|h))+$"}) }
	secret := func() object {
		return text(object{"pattern": "^$|^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253})
	}
	connection := text(object{
		"pattern":   "^$|^postgres(ql)?://([^:@/?]+@)?[^@]+$",
		"maxLength": 4096,
		"not":       object{"pattern": "[?&](password|passfile|ssl[a-z]*)="},
	})
	kind := text(object{"enum": []any{"kubernetes", "postgres"}})
	return []chartValue{
		{"store", group{}, "Where the journals, files and values of Sessions are; docs/postgres.md explains it.", nil},
		{"store.type", "kubernetes", "The store of new Sessions: kubernetes, or postgres. Others stay where they are.", kind},
		{"store.postgres", group{}, "The PostgreSQL database.", nil},
		{
			"store.postgres.connection",
			"",
			"Its URL without password and settings of TLS, such as postgres://db.example:5432/capstan. Empty: no database.",
			connection,
		},
		{
			"store.postgres.credentialsSecret",
			"",
			"A Secret of the release's namespace with the keys username and password. A change needs no restart.",
			secret(),
		},
		{
			"store.postgres.readerCredentialsSecret",
			"",
			"Another such Secret, of an account that may only read, for event streams. Empty: they use the account of Turns.",
			secret(),
		},
		{
			"store.postgres.caSecret",
			"",
			"A Secret with the authority of the server's certificate, in the key ca.crt. Empty: those of the image.",
			secret(),
		},
		{"store.postgres.plaintext", false, "Whether the manager connects without TLS.", toggle()},
		{
			"store.postgres.connections", 16, "The largest number of connections.",
			number(object{"minimum": 2, "maximum": 1000}),
		},
		{
			"store.postgres.readerConnections", 4, "The largest number of connections of event streams, beside these.",
			number(object{"minimum": 2, "maximum": 1000}),
		},
		{"store.postgres.statementTimeout", "10s", "The time after which the server aborts a statement.", duration()},
		{"store.postgres.retention", "24h", "How long a deleted Session is remembered, at least 1h.", duration()},
	}
}
