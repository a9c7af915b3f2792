#pragma once

#include <span>
#include <string>
#include <string_view>

namespace reprise::cli {

class OptionTable;

/// A flag of llama.cpp's or SGLang's server, and the option of this program with the same meaning.
struct ForeignFlag {
  std::string_view flag;    // "-c"
  std::string_view option;  // "max-model-len"; empty: there is none
  std::string_view advice;  // instead of "write --OPTION", where that is too little
};

[[nodiscard]] std::span<const ForeignFlag> foreign_flags();

/// "; write --max-model-len", for a flag that this program does not know and another server does;
/// else empty. Names only options of `table`.
[[nodiscard]] std::string hint_for_foreign_flag(std::string_view flag, const OptionTable& table);

}  // namespace reprise::cli
