# A static binary of a release, the certificates of the usual authorities, and nothing
# else: there is no image below it that could change. "make image VERSION=v0.1.0" puts
# together what it copies. Copy the binary into your own image, or start from this one:
#
#   COPY --from=holdfast /holdfast /usr/local/bin/holdfast
FROM scratch
ARG TARGETARCH
COPY ca-certificates.crt /etc/ssl/certs/
COPY $TARGETARCH/holdfast /holdfast
COPY $TARGETARCH/LICENSE $TARGETARCH/THIRD-PARTY-LICENSES /licenses/
USER 65532:65532
ENTRYPOINT ["/holdfast"]
