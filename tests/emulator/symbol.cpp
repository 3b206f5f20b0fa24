#include "emulator/symbol.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace syncopate::emulator {
namespace {

template <typename T>
std::vector<T> read_table(std::ifstream& file, uint64_t offset, size_t count) {
  std::vector<T> table(count);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(table.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  return table;
}

// The mangled name of the function at `offset` from where the file's first
// byte is loaded; empty if its symbol table does not tell.
std::string find_symbol(const char* path, uint64_t offset) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return {};
  uint64_t base = UINT64_MAX;  // the address the first segment was linked at
  for (const auto& segment :
       read_table<Elf64_Phdr>(file, header.e_phoff, header.e_phnum))
    if (segment.p_type == PT_LOAD && segment.p_vaddr < base)
      base = segment.p_vaddr;
  const auto sections =
      read_table<Elf64_Shdr>(file, header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size())
      continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    for (const auto& symbol : read_table<Elf64_Sym>(
             file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (symbol.st_value != base + offset) continue;
      auto names = read_table<char>(file, strings.sh_offset, strings.sh_size);
      names.push_back('\0');
      return names.data() + symbol.st_name;
    }
  }
  return {};
}

std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

// "void a::kernel<float>(float*, long)" -> "a::kernel<float>"
std::string without_signature(std::string name) {
  if (name.ends_with(')')) {
    int depth = 0;
    size_t at = name.size();
    while (at-- > 0) {
      depth += (name[at] == ')') - (name[at] == '(');
      if (depth == 0) break;
    }
    name.resize(at);
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}

}  // namespace

std::string name_of_function(const void* address) {
  Dl_info info{};
  std::string mangled;
  if (dladdr(address, &info) != 0) {
    const auto offset =
        static_cast<uint64_t>(static_cast<const char*>(address) -
                              static_cast<const char*>(info.dli_fbase));
    // The name a program was started by may be relative to another folder.
    mangled = find_symbol("/proc/self/exe", offset);
    struct stat own {
    }, other{};
    if (stat("/proc/self/exe", &own) == 0 &&
        stat(info.dli_fname, &other) == 0 &&
        (own.st_ino != other.st_ino || own.st_dev != other.st_dev))
      mangled = find_symbol(info.dli_fname, offset);
  }
  if (mangled.empty()) return fmt::format("{}", fmt::ptr(address));
  return without_signature(demangle(mangled));
}

}  // namespace syncopate::emulator
