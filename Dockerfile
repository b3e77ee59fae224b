# The two static binaries of a release, the certificates of the usual authorities, and nothing
# else: there is no image below it that could change. "make image VERSION=v0.1.0" puts
# together what it copies. Copy the binaries into your own image, or start from this one:
#
#   COPY --from=holdfast /holdfast /holdfast-stores /usr/local/bin/
FROM scratch
ARG TARGETARCH
COPY ca-certificates.crt /etc/ssl/certs/
COPY $TARGETARCH/holdfast $TARGETARCH/holdfast-stores /
COPY $TARGETARCH/LICENSE $TARGETARCH/THIRD-PARTY-LICENSES /licenses/
USER 65532:65532
ENTRYPOINT ["/holdfast"]
