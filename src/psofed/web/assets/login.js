"use strict";

// The token for a cookie. It travels in the body of a request, never in an address.
const field = el("input", { type: "password", id: "token", autocomplete: "current-password", required: true, autofocus: true });
const answer = el("p", { class: "bad", role: "alert" });

async function login(event) {
  event.preventDefault();
  answer.textContent = "";
  try {
    const reply = await fetch("login", { method: "POST", body: field.value });
    if (reply.ok) location.reload();
    else answer.textContent = "That is not the token.";
  } catch {
    answer.textContent = "The server cannot be reached.";
  }
}

document.getElementById("main").append(
  el("h1", {}, document.title),
  el("form", { class: "bar", onsubmit: login }, el("label", { for: "token" }, "Token"), field, el("button", {}, "Look")),
  answer,
);
