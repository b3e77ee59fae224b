class Holdfast < Formula
  desc "Locks, commits and checkpoints on the storage you already have"
  homepage "https://github.com/holdfast-go/holdfast"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/holdfast_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@holdfast_@VERSION@_darwin_arm64.tar.gz@"
    end
    on_intel do
      url "@URL@/holdfast_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@holdfast_@VERSION@_darwin_amd64.tar.gz@"
    end
  end
  on_linux do
    on_arm do
      url "@URL@/holdfast_@VERSION@_linux_arm64.tar.gz"
      sha256 "@holdfast_@VERSION@_linux_arm64.tar.gz@"
    end
    on_intel do
      url "@URL@/holdfast_@VERSION@_linux_amd64.tar.gz"
      sha256 "@holdfast_@VERSION@_linux_amd64.tar.gz@"
    end
  end

  def install
    bin.install "holdfast", "holdfast-stores"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    man7.install Dir["man/*.7"]
    bash_completion.install "completions/holdfast.bash" => "holdfast"
    zsh_completion.install "completions/holdfast.zsh" => "_holdfast"
    fish_completion.install "completions/holdfast.fish"
    doc.install "README.md", "CHANGELOG.md", "SECURITY.md", "THIRD-PARTY-LICENSES", "docs", "policies"
  end

  test do
    system bin/"holdfast", "run", "--store", "file:#{testpath}/store", "job", "--", "true"
  end
end
