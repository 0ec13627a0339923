// Package sessionsecret has the secrets of a Session (KV-02): which there are, and how arguments refer to them. Users
// set them in one Secret of the Session. Models know their names only, and can delete them.
package sessionsecret
