#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The stacked experts of GPT-OSS in the form that models load: matrices [experts, out, in], where
/// the rows of gate_up_proj are those of the gate, then those of up. A checkpoint has them as
/// floats [experts, in, out], or as MXFP4 (`_blocks` and `_scales`), with the rows of gate and up
/// in turn. MXFP4 stays packed where kernels can read it. All other tensors are those of `source`.
class ExpertMatrices final : public WeightSource {
 public:
  /// \throws FileError E_SHAPE for blocks and scales that do not fit each other
  ExpertMatrices(std::unique_ptr<WeightSource> source, const ModelConfig& config);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  [[nodiscard]] bool reads_rows(std::string_view name) const override;
  /// For matrices of experts, `rows` are experts.
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override;
  void read_panel_rows(std::string_view name,
                       RowRange rows,
                       std::span<std::byte> dst) const override;
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override;
  [[nodiscard]] std::string description() const override { return source_->description(); }

 private:
  enum class Stored : uint8_t { floats, mxfp4, bias };
  struct Entry {
    TensorSpec spec;  // as it is presented
    Stored stored = Stored::floats;
    bool alternates = false;  // rows of gate and up in turn
  };

  void add_matrices(const std::string& name, bool alternates);
  void read_floats(std::string_view name,
                   const Entry& entry,
                   RowRange experts,
                   DType dtype,
                   std::span<std::byte> dst) const;
  void read_mxfp4(std::string_view name,
                  const Entry& entry,
                  RowRange experts,
                  DType dtype,
                  std::span<std::byte> dst) const;
  /// Called with the stored blocks and scales of a row, and the row's place among the rows of
  /// `experts`.
  using OnRow =
      std::function<void(int64_t place, const uint8_t* blocks, std::span<const uint8_t> scales)>;
  void for_each_row(std::string_view name,
                    const Entry& entry,
                    RowRange experts,
                    const OnRow& on_row) const;

  std::unique_ptr<WeightSource> source_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace reprise::weights
