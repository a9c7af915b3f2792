#include "reprise/tokenizer/precompiled_map.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/base64.h"

namespace reprise::tokenizer {
namespace {

// Clusters with at least this many bytes are mapped character by character.
constexpr size_t kLongClusterBytes = 6;
constexpr size_t kUnitBytes = 4;

// The fields of a unit. Source: darts.h of SentencePiece.
bool has_leaf(uint32_t unit) { return (unit >> 8U & 1U) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FFU; }
size_t offset_of(uint32_t unit) {
  return static_cast<size_t>(unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
}

uint32_t read_unit(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < kUnitBytes; ++i) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  }
  return value;
}

// The end of the grapheme cluster that begins at `begin`.
size_t cluster_end(std::string_view text, size_t begin) {
  size_t end = begin;
  auto left = static_cast<utf8proc_int32_t>(next_code_point(text, end));
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    size_t next = end;
    const auto right = static_cast<utf8proc_int32_t>(next_code_point(text, next));
    if (utf8proc_grapheme_break_stateful(left, right, &state)) break;
    left = right;
    end = next;
  }
  return end;
}

}  // namespace

PrecompiledMap::PrecompiledMap(std::string_view bytes, const Component& component) {
  if (bytes.size() < kUnitBytes) {
    component.fail(fmt::format("has {} bytes, expected the size of a trie", bytes.size()));
  }
  const size_t trie_bytes = read_unit(bytes, 0);
  const size_t rest = bytes.size() - kUnitBytes;
  if (trie_bytes == 0 || trie_bytes % kUnitBytes != 0 || trie_bytes > rest) {
    component.fail(
        fmt::format("names a trie of {} bytes, expected a multiple of {} up to the {} "
                    "bytes behind the number",
                    trie_bytes,
                    kUnitBytes,
                    rest));
  }
  units_.reserve(trie_bytes / kUnitBytes);
  for (size_t at = kUnitBytes; at < kUnitBytes + trie_bytes; at += kUnitBytes) {
    units_.push_back(read_unit(bytes, at));
  }
  texts_ = bytes.substr(kUnitBytes + trie_bytes);
  check(component);
}

// Visits every unit that some text can reach from the root, each once.
void PrecompiledMap::check(const Component& component) const {
  if (!is_valid_utf8(texts_)) component.fail("has texts that are not UTF-8");
  const auto require_unit = [&](size_t position) {
    if (position < units_.size()) return;
    component.fail(
        fmt::format("names the unit {} of a trie that has {} units", position, units_.size()));
  };
  std::vector<bool> is_known(units_.size());
  std::vector<size_t> nodes;
  const auto add = [&](size_t node) {
    require_unit(node);
    if (!is_known[node]) nodes.push_back(node);
    is_known[node] = true;
  };
  add(offset_of(units_[0]));
  while (!nodes.empty()) {
    const size_t node = nodes.back();
    nodes.pop_back();
    for (size_t byte = 1; byte < 256; ++byte) {
      const size_t position = node ^ byte;
      require_unit(position);
      const uint32_t unit = units_[position];
      if (label_of(unit) != byte) continue;
      const size_t next = position ^ offset_of(unit);
      add(next);
      if (!has_leaf(unit)) continue;
      const size_t begin = value_of(units_[next]);
      const bool is_start =
          begin < texts_.size() && (static_cast<uint8_t>(texts_[begin]) & 0xC0U) != 0x80U;
      if (!is_start) {
        component.fail(fmt::format("names a text at byte {} of {} bytes, where no character begins",
                                   begin,
                                   texts_.size()));
      }
    }
  }
}

std::string_view PrecompiledMap::text_at(size_t begin) const {
  const std::string_view rest = std::string_view(texts_).substr(begin);
  return rest.substr(0, rest.find('\0'));
}

std::optional<std::string_view> PrecompiledMap::find(std::string_view characters) const {
  size_t node = offset_of(units_[0]);
  for (const char c : characters) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) break;
    const size_t position = node ^ byte;
    const uint32_t unit = units_[position];
    if (label_of(unit) != byte) break;
    node = position ^ offset_of(unit);
    if (has_leaf(unit)) return text_at(value_of(units_[node]));
  }
  return std::nullopt;
}

std::string PrecompiledMap::apply(std::string_view text, size_t max_bytes) const {
  BoundedText out(max_bytes);
  out.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view cluster = text.substr(begin, cluster_end(text, begin) - begin);
    begin += cluster.size();
    if (cluster.size() < kLongClusterBytes) {
      if (const auto mapped = find(cluster)) {
        out.append(*mapped);
        continue;
      }
    }
    for (size_t at = 0; at < cluster.size();) {
      const std::string_view character = cluster.substr(at, utf8_length(cluster[at]));
      out.append(find(character).value_or(character));
      at += character.size();
    }
  }
  return std::move(out).take();
}

PrecompiledMap parse_precompiled_map(const Component& component) {
  try {
    return {decode_base64(component.text()), component};
  } catch (const FileError&) {
    throw;
  } catch (const InvalidArgument& error) {
    component.fail(error.what());
  }
}

}  // namespace reprise::tokenizer
