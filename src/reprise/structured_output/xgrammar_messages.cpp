// xgrammar calls these functions for its errors and warnings (XGRAMMAR_LOG_CUSTOMIZE). This file is
// compiled into xgrammar.
#include <stdexcept>
#include <string>

namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& /*file*/,
                               int /*line*/,
                               const std::string& message) {
  throw std::runtime_error(message);
}

// xgrammar's warnings concern constructs that this project has already refused or rewritten.
void LogMessageImpl(const std::string& /*file*/,
                    int /*line*/,
                    int /*level*/,
                    const std::string& /*message*/) {}

}  // namespace xgrammar
