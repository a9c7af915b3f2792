// What xgrammar calls for its errors and warnings (XGRAMMAR_LOG_CUSTOMIZE); compiled into it.
#include <stdexcept>
#include <string>

namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& /*file*/,
                               int /*line*/,
                               const std::string& message) {
  throw std::runtime_error(message);
}

// Warnings are about what we have refused or normalised before.
void LogMessageImpl(const std::string& /*file*/,
                    int /*line*/,
                    int /*level*/,
                    const std::string& /*message*/) {}

}  // namespace xgrammar
