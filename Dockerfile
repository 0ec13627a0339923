# The images of Capstan. Build one of the targets:
#
#   docker build --target manager  --tag example.org/capstan/manager --build-arg VERSION="$(hack/version.sh)" .
#   docker build --target launcher --tag example.org/capstan/launcher .
#
# VERSION stamps the manager with its version; the context has no git repository to read it from.
#
# Without a container engine, `make images` writes the same images as tarballs.

ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /source
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=
ENV CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH}
RUN go build -trimpath -buildvcs=false -ldflags="-s -w ${VERSION}" -o /out/ ./cmd/manager ./cmd/launcher

# The launcher is mounted into, or copied into, the pods of tools whose images may hold nothing else: it must be static.
FROM scratch AS launcher
COPY --from=build /out/launcher /launcher
USER 65532:65532
ENTRYPOINT ["/launcher"]

FROM gcr.io/distroless/static:nonroot AS manager
COPY --from=build /out/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
