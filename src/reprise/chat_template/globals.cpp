#include <fmt/format.h>

#include <array>
#include <ctime>

#include "reprise/chat_template/builtins.h"
#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"

/// The functions that every template can call by name.
namespace reprise::chat_template {
namespace {

Value raise_exception(Sandbox& sandbox, const Value&, const Bound& args) {
  throw TemplateError(TemplateError::Cause::raised, sandbox.at, to_str(sandbox, args[0]));
}

// Expands the directives of Python's strftime that the C library lacks, for a time without a zone.
std::string expand_python_directives(std::string_view format) {
  std::string expanded;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      expanded += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      expanded += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      expanded += '%';
      expanded += directive;
    }
  }
  return expanded;
}

Value strftime_now(Sandbox& sandbox, const Value&, const Bound& args) {
  const std::string& format = require_text(sandbox, args[0], "strftime() argument 1").bytes;
  if (format.size() > 1024) sandbox.fail_limit("the format of strftime_now is too long");
  const std::string expanded = expand_python_directives(format);
  if (expanded.empty()) return sandbox.text("");
  // In the C locale, a directive of 2 bytes gives at most 64 bytes. A width ("%9999d") may need
  // more than the buffer; strftime then returns 0 and the text is empty.
  std::string buffer(expanded.size() * 32 + 64, '\0');
  buffer.resize(std::strftime(buffer.data(), buffer.size(), expanded.c_str(), &sandbox.now()));
  return sandbox.text(std::move(buffer));
}

Value range(Sandbox& sandbox, const Value&, const Bound& args) {
  const auto bound = [&](size_t index, int64_t fallback) {
    return args.has(index) ? require_integer(sandbox, args[index], "range() argument") : fallback;
  };
  Sequence sequence{.items = {}, .flavor = Sequence::Flavor::range};
  sequence.start = args.has(1) ? bound(0, 0) : 0;
  sequence.stop = args.has(1) ? bound(1, 0) : bound(0, 0);
  sequence.step = bound(2, 1);
  if (sequence.step == 0) sandbox.fail("range() arg 3 must not be zero");
  const auto [start, stop, step] = std::tuple(static_cast<__int128>(sequence.start),
                                              static_cast<__int128>(sequence.stop),
                                              static_cast<__int128>(sequence.step));
  const __int128 span = step > 0 ? stop - start : start - stop;
  const __int128 stride = step > 0 ? step : -step;
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > sandbox.limits().max_range) {
    sandbox.fail_limit(fmt::format("Range too big. The sandbox blocks ranges larger than {}.",
                                   sandbox.limits().max_range));
  }
  for (__int128 i = 0; i < count; ++i) {
    sequence.items.emplace_back(static_cast<int64_t>(start + i * step));
  }
  return sandbox.sequence(std::move(sequence));
}

// Collects the entries of dict(...) or namespace(...): the entries of a mapping or of pairs, then
// the named arguments.
Dict collect(Sandbox& sandbox, const Args& args, std::string_view who) {
  if (args.positional.size() > 1) {
    sandbox.fail(
        fmt::format("{} expected at most 1 argument, got {}", who, args.positional.size()));
  }
  Dict entries;
  const auto set = [&](const Value& key, const Value& value) {
    if (!is_hashable(key)) sandbox.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    sandbox.charge_walk(key);
    entries.set(key, value);
  };
  if (!args.positional.empty()) {
    const Value& source = args.positional.front();
    if (const Dict* dict = source.dict()) {
      for (const auto& [key, value] : dict->entries()) set(key, value);
    } else {
      for (const Value& pair : iterate(sandbox, source)) {
        const auto parts = iterate(sandbox, pair);
        if (parts.size() != 2) {
          sandbox.fail(fmt::format(
              "dictionary update sequence element has length {}; 2 is required", parts.size()));
        }
        set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) set(sandbox.text(name), value);
  return entries;
}

Value dict(Sandbox& sandbox, const Value&, const Bound& args) {
  return sandbox.dict(collect(sandbox, args.raw(), "dict"));
}

Value name_space(Sandbox& sandbox, const Value&, const Bound& args) {
  const Dict entries = collect(sandbox, args.raw(), "namespace");
  Value created = sandbox.name_space();
  for (const auto& [key, value] : entries.entries()) {
    const std::string name = to_str(sandbox, key);
    if (name.starts_with('_')) {
      sandbox.fail(fmt::format("cannot store the underscore-prefixed attribute {}", name));
    }
    sandbox.hold(sizeof(Value) + sizeof(std::string) + name.size());
    created.name_space()->set(name, value);
  }
  return created;
}

constexpr auto kGlobals = std::to_array<Builtin>({
    {"dict", "*", 0, dict},
    {"namespace", "*", 0, name_space},
    {"raise_exception", "message", 1, raise_exception},
    {"range", "/start /stop /step", 1, range},
    {"strftime_now", "format", 1, strftime_now},
});

}  // namespace

const Builtin* find_global(std::string_view name) { return find_in(kGlobals, name); }

}  // namespace reprise::chat_template
