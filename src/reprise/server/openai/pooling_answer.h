#pragma once

#include <string>
#include <vector>

#include "reprise/server/http/router.h"
#include "reprise/server/openai/pooling_parameters.h"
#include "reprise/server/openai/request_answer.h"
#include "reprise/server/openai/responses.h"

namespace reprise::server {

/// The answer to a request for vectors: one object, written when all texts have their vector.
class PoolingAnswer final : public RequestAnswer {
 public:
  PoolingAnswer(PoolingParameters parameters,
                AnswerHead head,
                std::string request_id,
                Usage usage,
                ExchangeRef exchange);

  void take(int index, const engine::OutputDelta& delta) override;
  void finish() override { respond(whole()); }
  [[nodiscard]] bool is_large() const override;
  [[nodiscard]] HttpResponse whole() override;
  void respond(HttpResponse response) override { exchange_->respond(std::move(response)); }
  void fail(const ApiError& error) override;

 private:
  [[nodiscard]] std::string vectors_json() const;
  /// The answer around `data`.
  [[nodiscard]] std::string list_json(Json data) const;
  [[nodiscard]] std::string scores_json() const;
  [[nodiscard]] std::string ranking_json() const;
  [[nodiscard]] std::string labels_json() const;
  /// The similarity of each pair of texts.
  [[nodiscard]] std::vector<double> scores() const;

  PoolingParameters parameters_;
  AnswerHead head_;
  std::string request_id_;
  Usage usage_;
  ExchangeRef exchange_;
  std::vector<std::vector<float>> vectors_;  // vectors by the index of the text
};

}  // namespace reprise::server
