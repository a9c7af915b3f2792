#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "reprise/base/disk_steps.h"
#include "reprise/kernels/product_table.h"

namespace reprise::api {

/// Measured choices of matrix products on disk: one file for each identity of a device (card,
/// driver, library, kernels). It is read like a part of the program, so its folder must belong to
/// this user alone. The content of the disk never causes an exception.
class ProductTableFile {
 public:
  struct Options {
    std::filesystem::path root;
    std::string identity;  // one line, see TunableProducts::identity()
    StepHook step_hook;    // tests only
  };
  explicit ProductTableFile(Options options);

  [[nodiscard]] std::filesystem::path path() const;

  struct Read {
    kernels::ProductTable table;
    std::string reason;          // why the table is empty; empty: it was read
    bool is_broken = false;      // there is a file, which cannot be used
    bool is_unreadable = false;  // it is broken because the file system gives an error
  };
  [[nodiscard]] Read read() const;

  /// Which choice stays if the file has one already: that of the file, or the new one.
  enum class Known { kept, replaced };
  struct Saved {
    kernels::ProductTable table;  // what the file has now, or should have
    std::string reason;           // why nothing was written; empty: it was
  };
  /// Adds choices to the file, under a lock: processes that save at the same time lose nothing, and
  /// with Known::kept all of them get the same table. A broken file is replaced.
  [[nodiscard]] Saved add(const kernels::ProductTable& measured, Known known) const;

 private:
  [[nodiscard]] Read read_from(int directory) const;
  [[nodiscard]] std::string write_to(int directory, const kernels::ProductTable& table) const;

  Options options_;
  std::string name_;
};

/// The bytes of a file: a line with a checksum of the rest, the identity, the table.
[[nodiscard]] std::string print_product_file(std::string_view identity,
                                             const kernels::ProductTable& table);
/// Whatever the bytes are, the result is a table of this identity, or an error that says why they
/// are refused. \throws InvalidArgument
[[nodiscard]] kernels::ProductTable parse_product_file(std::string_view bytes,
                                                       std::string_view identity,
                                                       std::string_view where);

}  // namespace reprise::api
