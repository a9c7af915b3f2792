#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "reprise/server/http/http_server.h"

namespace reprise::server {

/// Notices when the files of a certificate were replaced, by reading their status. Follows links,
/// so it also notices a secret that Kubernetes replaces by moving a link. I/O thread only.
class TlsFiles {
 public:
  explicit TlsFiles(TlsOptions options)
      : options_(std::move(options)), in_use_(look()), last_(in_use_) {}

  [[nodiscard]] const TlsOptions& options() const noexcept { return options_; }
  /// Whether the files differ from their state at the last change, and are the same as at the last
  /// call: a certificate and its key are written one after the other. Call it periodically.
  [[nodiscard]] bool have_changed();

 private:
  /// Device, number, size and time of change of a file; zeros if the file does not exist.
  using State = std::array<int64_t, 5>;
  using States = std::array<State, 3>;

  [[nodiscard]] States look() const;

  TlsOptions options_;
  States in_use_;
  States last_;
};

}  // namespace reprise::server
