# A static binary and nothing else; copy it into your own image, or start from it:
#
#   COPY --from=holdfast /holdfast /usr/local/bin/holdfast
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 GOFLAGS=-trimpath go build -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /holdfast ./cmd/holdfast

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /holdfast /holdfast
ENTRYPOINT ["/holdfast"]
