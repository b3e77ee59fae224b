# Reads a formula as Homebrew does on one system, prints the address and the checksum of its archive,
# and checks that the files that it installs are in the folder of this archive:
#   ruby formula.rb FORMULA macos|linux arm|intel [FOLDER]
$formula, $system, $processor, $folder = ARGV

class Place
  def initialize(name) = @name = name

  def install(*files)
    files.flat_map { |file| file.is_a?(Hash) ? file.keys : file }.each do |file|
      raise "#{@name}: no file #{file}" unless File.exist?(File.join($folder, file))
    end
    raise "#{@name}: nothing to install" if files.flatten.empty?
  end
end

class Formula
  %i[desc homepage version license].each { |field| define_singleton_method(field) { |value| raise field.to_s if value.empty? } }
  %i[url sha256].each { |field| define_singleton_method(field) { |value| puts value } }
  { on_macos: "macos", on_linux: "linux" }.each { |name, system| define_singleton_method(name) { |&block| block.call if system == $system } }
  { on_arm: "arm", on_intel: "intel" }.each { |name, kind| define_singleton_method(name) { |&block| block.call if kind == $processor } }
  define_singleton_method(:test) { |&block| raise "no test" unless block }
  %i[bin man1 man5 man7 bash_completion zsh_completion fish_completion doc].each { |name| define_method(name) { Place.new(name) } }
end

load $formula
if $folder
  Dir.chdir($folder) { Holdfast.new.install }
end
