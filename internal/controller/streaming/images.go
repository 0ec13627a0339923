package streaming

import (
	"context"
	"fmt"
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
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	all, err := images.List(ctx)
	if err != nil {
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
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
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	info, content, err := images.Get(ctx, r.PathValue("id"))
	switch {
	case err != nil:
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
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
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	content, ok := r.body(sessionimage.MaxImageBytes, "an image")
	if !ok {
		return
	}
	images, err := h.Resources.Images(ctx, r.session, true)
	if err != nil {
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	mediaType, err := sessionimage.TypeOf(content)
	if err != nil {
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	info, err := images.Create(ctx, record.Cause{}, sessionimage.Draft{
		Filename: r.URL.Query().Get("filename"), ContentType: mediaType, Bytes: content, Metadata: metadata,
	})
	if err != nil {
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	respond(r.w, info.Public())
}

// metadataOf returns the metadata of a request: its parameters metadata, each of the form KEY=VALUE.
func metadataOf(query url.Values) (map[string]string, error) {
	pairs := query["metadata"]
	metadata := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, record.Explainf("The parameter metadata has the form KEY=VALUE.")
		}
		if _, twice := metadata[key]; twice {
			return nil, record.Explainf("The metadata %.64q are set twice.", key)
		}
		metadata[key] = value
	}
	return metadata, nil
}

// removeImage deletes an image.
func (h *Handler) removeImage(ctx context.Context, r *request) {
	images, err := h.Resources.Images(ctx, r.session, false)
	if err != nil {
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
		return
	}
	existed, err := images.Delete(ctx, record.Cause{}, r.PathValue("id"))
	switch {
	case err != nil:
		h.serviceError(r.w, err, "the images of the Session cannot be used now")
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
