# The operator's image: the binary, the CA bundle, nothing else.
#
#   docker build --build-arg FLIPOP_COMMIT="$(git rev-parse --short=12 HEAD)" -t flipop .
#
# The toolchain is the one that rust-toolchain.toml pins, and the digest fixes the rest of its image. The binary is
# linked statically (position-independent), so that the final stage needs no libraries; CI builds that stage from a
# binary of its own (ci/image.sh).
FROM rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
WORKDIR /src
COPY . .
# The log and `flipop version` name it. .git is not part of the context (.dockerignore).
ARG FLIPOP_COMMIT
# --target, so that the flag is not applied to build scripts and procedural macros, which cannot be static.
RUN set -eu; \
    host="$(rustc -vV | sed -n 's/^host: //p')"; \
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --package flipop --bin flipop --target "$host"; \
    install -D -m 0755 "target/$host/release/flipop" /out/app/flipop; \
    install -D -m 0644 /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt

FROM scratch AS final
COPY --from=build /out/ /
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# No ENTRYPOINT: Deployments pass `args: ["/app/flipop", …]`, which replace the CMD.
CMD ["/app/flipop"]
