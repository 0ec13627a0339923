package streaming

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// errNoFile reports a path that does not exist.
var errNoFile = errors.New("the file does not exist")

// read answers a request for a file with its bytes, and one for a directory with a list.
func (h *Handler) read(ctx context.Context, r *request) {
	files, err := h.Resources.Files(ctx, r.session, false)
	if err != nil {
		h.fileError(r.w, err)
		return
	}
	path := r.PathValue("path")
	info, content, err := files.ReadBytes(ctx, path)
	if err == nil && (info == nil || !info.IsDirectory && strings.HasSuffix(path, "/")) {
		err = errNoFile
	}
	if err != nil {
		h.fileError(r.w, err)
		return
	}
	if !info.IsDirectory {
		headers(r.w, "application/octet-stream")
		r.w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = r.w.Write(content) // A caller that is gone needs no answer.
		return
	}
	list := files.List
	if r.URL.Query().Get("recursive") == "true" {
		list = files.Tree
	}
	found, err := list(ctx, path)
	if err != nil {
		h.fileError(r.w, err)
		return
	}
	all := stream.FileList{Files: []stream.File{}}
	for i := range found {
		all.Files = append(all.Files, found[i].Public())
	}
	respond(r.w, all)
}

// write writes a file.
func (h *Handler) write(ctx context.Context, r *request) {
	files := h.writable(ctx, r)
	if files == nil {
		return
	}
	content, ok := r.body(record.MaxValueBytes, "a file")
	if !ok {
		return
	}
	path := r.PathValue("path")
	written, err := files.WriteBytes(ctx, record.Cause{}, path, content)
	if err != nil {
		h.fileError(r.w, err)
		return
	}
	clean, _ := sessionfs.Clean(path) // It was clean enough to be written.
	respond(r.w, stream.FileWritten{Path: clean, Size: written.Size, Created: written.Created})
}

// remove deletes a file, or a directory.
func (h *Handler) remove(ctx context.Context, r *request) {
	files := h.writable(ctx, r)
	if files == nil {
		return
	}
	path := r.PathValue("path")
	deleted, err := files.Delete(ctx, record.Cause{}, path, r.URL.Query().Get("recursive") == "true")
	if err == nil && !deleted {
		err = h.kept(ctx, files, path)
	}
	if err != nil {
		h.fileError(r.w, err)
		return
	}
	headers(r.w, "application/json")
	r.w.WriteHeader(http.StatusNoContent)
}

// kept returns why nothing was deleted.
func (h *Handler) kept(ctx context.Context, files *sessionfs.FS, path string) error {
	there, err := files.Stat(ctx, path)
	switch {
	case err != nil:
		return err
	case there == nil:
		return errNoFile
	default:
		return sessionfs.Errorf("%s is a directory that is not empty. Delete it with recursive=true.", there.Path)
	}
}

// writable returns the files of a Session that exists on; nil if the request was answered.
func (h *Handler) writable(ctx context.Context, r *request) *sessionfs.FS {
	if r.session.DeletionTimestamp != nil {
		answer(r.w, http.StatusConflict, metav1.StatusReasonConflict, "the Session is being deleted")
		return nil
	}
	files, err := h.Resources.Files(ctx, r.session, true)
	if err != nil {
		h.fileError(r.w, err)
		return nil
	}
	return files
}

// fileError answers a request about a file that has failed.
func (h *Handler) fileError(w http.ResponseWriter, err error) {
	var shown *sessionfs.Error
	switch {
	case errors.Is(err, errNoFile):
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	case errors.As(err, &shown):
		answer(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, shown.Error())
	case errors.Is(err, context.DeadlineExceeded):
		h.busy(w, err)
	default:
		h.failed(w, "the files of the Session cannot be used now", err)
	}
}
