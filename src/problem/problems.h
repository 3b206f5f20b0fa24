// The problems by kind of samples, for make_problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem/problem.h"

namespace syncopate {

std::unique_ptr<Problem> make_question_problem(const Options& options,
                                               int threads);
std::unique_ptr<Problem> make_click_problem(const Options& options);

}  // namespace syncopate
