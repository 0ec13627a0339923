package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
)

// imageBytes is the memory that a request about an image takes: the body, and the parts that are written or read.
const imageBytes = 8 << 20

// images answers with a list of images.
func (h *Handler) images(ctx context.Context, r *request) {
	images, err := h.Resources.Images(ctx, r.session, false)
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	all, err := images.List(ctx)
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	list := stream.ImageList{Items: []stream.Image{}}
	for i := range all {
		list.Items = append(list.Items, all[i].Public())
	}
	respond(r.w, list)
}

// image answers with the bytes of an image.
func (h *Handler) image(ctx context.Context, r *request) {
	images, err := h.Resources.Images(ctx, r.session, false)
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	info, content, err := images.Get(ctx, r.PathValue("id"))
	switch {
	case err != nil:
		h.imageError(r.w, err)
	case info == nil:
		noImage(r)
	default:
		headers(r.w, info.ContentType)
		r.w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = r.w.Write(content) // A caller that is gone needs no answer.
	}
}

// store stores an image, whose type is that of its first bytes.
func (h *Handler) store(ctx context.Context, r *request) {
	if r.session.DeletionTimestamp != nil {
		answer(r.w, http.StatusConflict, metav1.StatusReasonConflict, "the Session is being deleted")
		return
	}
	metadata, err := metadataOf(r.URL.Query())
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	if r.ContentLength > sessionimage.MaxImageBytes {
		imageTooLarge(r.w)
		return
	}
	content, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, sessionimage.MaxImageBytes))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		imageTooLarge(r.w)
		return
	}
	if err != nil {
		answer(r.w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the body of the request ends too early")
		return
	}
	images, err := h.Resources.Images(ctx, r.session, true)
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	mediaType, err := sessionimage.TypeOf(content)
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	info, err := images.Create(ctx, record.Cause{}, sessionimage.Draft{
		Filename: r.URL.Query().Get("filename"), ContentType: mediaType, Bytes: content, Metadata: metadata,
	})
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	respond(r.w, info.Public())
}

// metadataOf returns the metadata of a request: its parameters metadata, each of the form KEY=VALUE.
func metadataOf(query url.Values) (map[string]string, error) {
	pairs := query["metadata"]
	if len(pairs) > sessionimage.MaxMetadata {
		return nil, record.Explainf("The metadata of an image have at most %d pairs, not %d.", sessionimage.MaxMetadata,
			len(pairs))
	}
	metadata := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, record.Explainf("The parameter metadata has the form KEY=VALUE.")
		}
		metadata[key] = value
	}
	return metadata, nil
}

// removeImage deletes an image.
func (h *Handler) removeImage(ctx context.Context, r *request) {
	images, err := h.Resources.Images(ctx, r.session, false)
	if err != nil {
		h.imageError(r.w, err)
		return
	}
	existed, err := images.Delete(ctx, record.Cause{}, r.PathValue("id"))
	switch {
	case err != nil:
		h.imageError(r.w, err)
	case !existed:
		noImage(r)
	default:
		headers(r.w, "application/json")
		r.w.WriteHeader(http.StatusNoContent)
	}
}

func noImage(r *request) {
	answer(r.w, http.StatusNotFound, metav1.StatusReasonNotFound,
		fmt.Sprintf("the Session has no image %.64q", r.PathValue("id")))
}

func imageTooLarge(w http.ResponseWriter) {
	answer(w, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
		fmt.Sprintf("an image has at most %d bytes", sessionimage.MaxImageBytes))
}

// imageError answers a request about images that has failed.
func (h *Handler) imageError(w http.ResponseWriter, err error) {
	var explained *record.ExplainedError
	switch {
	case errors.As(err, &explained):
		answer(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, explained.Error())
	case errors.Is(err, context.DeadlineExceeded):
		h.busy(w, err)
	default:
		h.failed(w, "the images of the Session cannot be used now", err)
	}
}
