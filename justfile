# The steps that CI runs.
check: fmt-check lint deny doc book workflow release-files checkov test simulate image

# A fast check for daily work: the decisions.
quick:
    cargo test --locked --package flipop-core

# Formats the code.
fmt:
    cargo fmt --all

fmt-check:
    cargo fmt --all -- --check

# Clippy with every warning an error.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Licences, banned crates and sources. `just advisories` needs the network.
deny:
    cargo deny --locked check licenses bans sources

# Known vulnerabilities, from the RustSec database.
advisories:
    cargo deny --locked check advisories

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Builds the pages of docs/ into target/book; any warning of mdBook is an error.
book:
    ci/book.sh

# Every test but the simulations; those of the API server need Go or KUBEBUILDER_ASSETS.
test:
    cargo test --workspace --locked

# Simulations: random seeds, a part of each sweep, a day. The number of commits decides which part.
simulate SEEDS="300":
    SIMULATION_SEEDS={{SEEDS}} SIMULATION_SWEEP=$(git rev-list --count HEAD) SIMULATION_DAYS=1 cargo test --profile simulation --locked --package flipop-simulation --test simulation --test days -- --nocapture

# Puts known faults into the operator, one at a time, and expects tests to fail: the tests of the tests.
mutations *ARGS:
    cargo run --quiet --locked --package flipop-verify -- mutations {{ARGS}}

# Lets cargo-mutants break the code. Run it every week: it takes hours, and continues where it ended.
mutants *ARGS:
    cargo run --quiet --locked --package flipop-verify -- runs mutants client_mutants shell_mutants {{ARGS}}

# More seeds, repetitions and minutes than CI has. Continues where it ended. `just runs --list` says what is due.
runs *ARGS:
    cargo build --release --locked --package flipop --bin flipop
    cargo run --quiet --locked --package flipop-verify -- runs {{ARGS}}

# Everything that takes hours.
verify: mutations runs

# Writes crds/ and their copies in k8s/ from the Rust types.
crds:
    UPDATE_CRDS=1 cargo test --locked --test repository -- crds

# Writes the dashboard, and the copies in charts/, kustomize/ and argocd/.
install-files:
    UPDATE_INSTALL=1 cargo test --locked --test install -- copies

# The chart, the manifests and their checksums as a release has them, with the name of the image.
release-files IMAGE="registry.example.com/flipop":
    ci/release.sh {{IMAGE}}

# The workflows; needs actionlint.
workflow:
    actionlint .github/workflows/*.yml

# checkov over the manifests.
checkov:
    ci/checkov.sh

# Writes the generated pages of docs/reference/ from the code.
reference:
    UPDATE_DOCS=1 cargo test --locked --test repository -- reference

# Takes docs/failover.png, README's picture, from the web page of the sandbox in Chromium.
picture:
    UPDATE_DOCS=1 cargo test --locked --package flipop-sandbox --test page

# Builds the image's final stage with buildah and runs it.
image:
    ci/image.sh

# The benchmark: the release binary against a real API server and the simulated cloud, all on loopback.
bench *ARGS:
    cargo build --release --locked --package flipop --bin flipop
    cargo run --profile harness --locked --package flipop-bench -- {{ARGS}}
