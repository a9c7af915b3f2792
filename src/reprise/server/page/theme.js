/// Light, dark or what the system says. A plain script in the head, so that the first picture has
/// the right colours.
(() => {
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  let theme = "";
  try { theme = localStorage.getItem("reprise.theme") ?? ""; } catch { /* as the system */ }
  apply(theme);
  document.addEventListener("DOMContentLoaded", () => {
    const menu = document.getElementById("theme");
    menu.value = document.documentElement.dataset.theme ?? "";
    menu.addEventListener("change", () => {
      apply(menu.value);
      try { localStorage.setItem("reprise.theme", menu.value); } catch { /* until the page is closed */ }
    });
  });
})();
