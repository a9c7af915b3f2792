#include "reprise/compile/cache/cache_manifest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::compile {
namespace {

constexpr std::string_view kFormat = "reprise compile cache";
constexpr size_t kChecksumDigits = 16;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

std::optional<uint64_t> parse_hex(const std::string& text) {
  if (text.size() != kChecksumDigits || !std::all_of(text.begin(), text.end(), is_hex_digit)) {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (const char c : text) {
    value = value << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

std::string dump(const Json& json) {
  // The output is ASCII and bytes that are not UTF-8 are replaced, so printing cannot throw.
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

const std::string& string_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    throw InvalidArgument(fmt::format("member '{}' is not a string", name));
  }
  return found->get_ref<const std::string&>();
}

const Json& array_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) {
    throw InvalidArgument(fmt::format("member '{}' is not an array", name));
  }
  return *found;
}

std::string read_key(const Json& lines) {
  std::string text;
  for (const Json& line : lines) {
    if (!line.is_string()) throw InvalidArgument("a line of 'key' is not a string");
    text.append(line.get_ref<const std::string&>()).push_back('\n');
  }
  return text;
}

ManifestFile read_file(const Json& object) {
  if (!object.is_object()) throw InvalidArgument("an entry of 'files' is not an object");
  ManifestFile file;
  file.name = string_member(object, "name");
  if (!is_cache_file_name(file.name)) {
    throw InvalidArgument(fmt::format("'{:.40}' cannot name a file of an entry", file.name));
  }
  const auto num_bytes = object.find("bytes");
  if (num_bytes == object.end() || !num_bytes->is_number_unsigned()) {
    throw InvalidArgument(fmt::format("file '{}': 'bytes' is not a count", file.name));
  }
  file.num_bytes = num_bytes->get<uint64_t>();
  const std::optional<uint64_t> checksum = parse_hex(string_member(object, "xxh3"));
  if (!checksum)
    throw InvalidArgument(fmt::format("file '{}': 'xxh3' is not 16 digits", file.name));
  file.checksum = *checksum;
  return file;
}

std::vector<ManifestFile> read_files(const Json& array) {
  if (array.size() > kMaxCacheFiles) {
    throw InvalidArgument(
        fmt::format("{} files, at most {} are accepted", array.size(), kMaxCacheFiles));
  }
  std::vector<ManifestFile> files;
  std::unordered_set<std::string> names;
  for (const Json& object : array) {
    files.push_back(read_file(object));
    if (!names.insert(files.back().name).second) {
      throw InvalidArgument(fmt::format("file '{}' is listed twice", files.back().name));
    }
  }
  return files;
}

}  // namespace

uint64_t cache_checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

bool is_cache_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxCacheFileName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::string ManifestFile::stored_name() const { return name + "." + hex(checksum); }

bool is_stored_name(std::string_view name) {
  if (name.size() < kChecksumDigits + 2) return false;
  const std::string_view digits = name.substr(name.size() - kChecksumDigits);
  const std::string_view stem = name.substr(0, name.size() - kChecksumDigits);
  return std::all_of(digits.begin(), digits.end(), is_hex_digit) && stem.back() == '.' &&
         is_cache_file_name(stem.substr(0, stem.size() - 1));
}

std::string print_manifest(const Manifest& manifest) {
  Json key = Json::array();
  for (std::string_view rest = manifest.key_text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    key.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back(
        Json{{"name", file.name}, {"bytes", file.num_bytes}, {"xxh3", hex(file.checksum)}});
  }
  Json json{{"format", kFormat},
            {"version", kCacheFormatVersion},
            {"created_by", manifest.created_by},
            {"key", std::move(key)},
            {"files", std::move(files)}};
  json["checksum"] = hex(cache_checksum(dump(json)));
  return dump(json);
}

ManifestReading read_manifest(std::string_view text) try {
  const JsonLimits limits{.max_bytes = kMaxManifestBytes, .max_depth = 4};
  const Json json = parse_json(text, "manifest", limits);
  if (!json.is_object() || string_member(json, "format") != kFormat) {
    throw InvalidArgument("not a manifest of the compile cache");
  }
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_unsigned()) {
    throw InvalidArgument("no format version");
  }
  if (*version != kCacheFormatVersion) {
    return {.is_other_version = true,
            .reason = fmt::format("format version {}, this program reads and writes version {}",
                                  version->get<uint64_t>(),
                                  kCacheFormatVersion)};
  }
  Manifest manifest{.key_text = read_key(array_member(json, "key")),
                    .created_by = string_member(json, "created_by"),
                    .files = read_files(array_member(json, "files"))};
  // One comparison detects a wrong checksum, unknown members, extra white space and every flipped
  // bit.
  if (print_manifest(manifest) != text) throw InvalidArgument("the manifest's bytes are damaged");
  return {.manifest = std::move(manifest)};
} catch (const InvalidArgument& error) {
  return {.reason = error.what()};
}

}  // namespace reprise::compile
