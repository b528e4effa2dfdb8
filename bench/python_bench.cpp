// The peer of bench/python.py: the request that Python makes, made from C++ on the same arrays.
// Usage: python_bench FOLDER; each line on stdin is a run, whose seconds go to stdout. FOLDER holds
// W.npy, b.npy, x.npy, y.npy, and new.npy afterwards.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>

#include "oubli/array/array_file.h"
#include "oubli/array/npy.h"
#include "python/src/request.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  const auto load = [&](const char* name) { return oubli::load_array((folder / name).string()); };
  const auto W = load("W.npy"), b = load("b.npy"), x = load("x.npy"), y = load("y.npy");
  oubli::python::ForgetArguments given;
  given.weights = &W;
  given.bias = &b;
  given.values = &x;
  given.labels = &y;
  given.classes = {"index:7"};
  given.method = "normalization";
  given.solver = "auto";
  oubli::python::Forgotten result;
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    result = oubli::python::forget(given, {});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fmt::print("{}\n", seconds.count());
    std::fflush(stdout);
  }
  oubli::write_npy(folder / "new.npy", result.weights.view("new"));
}
